#include "job_command.hpp"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "../../device_model/clock.hpp"
#include "../json.hpp"
#include "model_target.hpp"
#include "../pass.hpp"

namespace replay {
namespace {

std::atomic<bool> stopped = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void stop(int) { stopped = true; }

std::ifstream open(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("couldn't open " + path);
  return file;
}

Requests read_requests(const JobOptions& options) {
  Requests requests{.count = static_cast<size_t>(std::llround(options.requests)), .arrivals = {}};
  if (options.arrivals.empty()) return requests;
  std::ifstream file = open(options.arrivals);
  for (int64_t ns = 0; file >> ns;) requests.arrivals.push_back(ns);
  if (!file.eof() || requests.count == 0 || requests.arrivals.size() < requests.count)
    throw std::runtime_error("couldn't use the arrivals in " + options.arrivals + ": it has " +
                             std::to_string(requests.arrivals.size()) + " times in ns, and " +
                             std::to_string(requests.count) + " requests were asked for");
  return requests;
}

void wait_for_begin() {
  struct sigaction action {};
  action.sa_handler = stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  printf("ready %d\n", static_cast<int>(getpid()));
  fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
}

void print(const std::string& device, int64_t begun_ns, const std::vector<Request>& ended) {
  printf("{\"device\": %s, \"begun_ns\": %lld, \"ended_ns\": %lld, \"requests\": [", emu::quoted(device).c_str(),
         static_cast<long long>(begun_ns), static_cast<long long>(emu::RealClock().now_ns()));
  const char* comma = "";
  for (const Request& request : ended) {
    printf("%s[%lld, %lld]", comma, static_cast<long long>(request.arrival_ns), static_cast<long long>(request.end_ns));
    comma = ", ";
  }
  printf("]}\n");
}

}  // namespace

void run_job(const JobOptions& options) {
  std::ifstream file = open(options.recording);
  Recording recording = read_recording(file);
  Plan pass = make_pass(recording);
  stretch(recording, options.stretch);
  stretch(pass, options.stretch);
  const Requests requests = read_requests(options);
  if (options.model) {
    if (requests.count == 0) throw std::runtime_error("a job in manual time needs --requests, it would never end");
    ModelTarget target(pass);
    print("Emulated device model", 0, live(pass, target, requests, stopped));
    return;
  }
  DriverTarget target(recording, options.driver);
  wait_for_begin();
  const int64_t begun_ns = emu::RealClock().now_ns();
  print(target.device_name(), begun_ns, live(pass, target, requests, stopped));
}

}  // namespace replay
