// Where a recording is played: the device model in manual time, or a driver with a device behind it.
#pragma once

#include <cstdint>

#include "../plan.hpp"

namespace replay {

class Target {
 public:
  virtual ~Target() = default;
  // The host's clock, in the recording's nanoseconds: a dilated device's host is dilated as well.
  virtual int64_t now_ns() = 0;
  virtual void sleep_until(int64_t t_ns) = 0;
  // Hands the step's work to the device, behind that of the step with the number `behind`; waits while its stream's queue
  // is full, as a driver does.
  virtual void issue(const Step& step) = 0;
  virtual void wait_for_stream(int stream) = 0;
  virtual void wait_for_all() = 0;
  virtual void wait_for_number(int number) = 0;
  // Notes what the step waits for at this moment, under its number `mark`; wait_for_mark() waits for that, and returns
  // when it was done. 0: long ago, or nobody knows.
  virtual void mark(const Step& step) = 0;
  virtual int64_t wait_for_mark(int mark) = 0;
  // From the first start to the last end on the device. Only after everything is done.
  virtual int64_t span_ns() = 0;
};

}  // namespace replay
