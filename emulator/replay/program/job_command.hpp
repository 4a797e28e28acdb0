// `fikit-replay job`: a recording as a program that serves requests, or works on without end.
#pragma once

#include <string>

#include "driver_target.hpp"
#include "play.hpp"

namespace replay {

struct JobOptions {
  std::string recording;  // file
  std::string arrivals;   // file with a line per request: ns since the begin; "": closed loop
  double requests = 0;    // 0: until SIGTERM
  double stretch = 1;     // everything takes so many times as long as recorded: not the device's dilation, of which
                          // the times that a driver measures know nothing
  bool model = false;     // the device model in manual time, instead of a driver
  DriverOptions driver;
};

// Says "ready" and its pid, begins with the first line on standard input (with a driver), and prints one JSON object at its end. Throws
// std::runtime_error, one sentence.
void run_job(const JobOptions& options);

}  // namespace replay
