#include "clock.hpp"

#include <sys/prctl.h>

#include <cerrno>
#include <ctime>

namespace emu {
namespace {
constexpr int64_t kNsPerSecond = 1'000'000'000;
}

int64_t RealClock::now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * kNsPerSecond + t.tv_nsec;
}

void RealClock::sleep_until(int64_t t_ns) {
  // The default slack of 50 us would dominate short kernels. It is a property of the program's thread: put it back.
  const int slack = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, 1UL);
  const timespec t{t_ns / kNsPerSecond, t_ns % kNsPerSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
  if (slack > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack));
}

}  // namespace emu
