// The only source of time of the emulator, so that the same model runs in real time (libcuda) and in manual time
// (tests, simulator).
#pragma once

#include <cstdint>

namespace emu {

class Clock {
 public:
  virtual ~Clock() = default;
  // CLOCK_MONOTONIC nanoseconds, or whatever the owner of a ManualClock says.
  virtual int64_t now_ns() = 0;
  // Returns at t_ns or a little later; at once when t_ns has passed.
  virtual void sleep_until(int64_t t_ns) = 0;
};

class RealClock final : public Clock {
 public:
  int64_t now_ns() override;
  void sleep_until(int64_t t_ns) override;
};

// Stands still except when told to move: sleeping is moving.
class ManualClock final : public Clock {
 public:
  int64_t now_ns() override { return now_; }
  void sleep_until(int64_t t_ns) override { now_ = t_ns > now_ ? t_ns : now_; }

 private:
  int64_t now_ = 0;
};

}  // namespace emu
