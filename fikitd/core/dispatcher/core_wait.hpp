// How long a process's main thread has waited for a processor core: /proc/PID/schedstat (Linux's Documentation/scheduler/sched-stats.rst).
#pragma once

#include <cstdint>

namespace fikit::dispatcher {

class CoreWait {
 public:
  CoreWait() = default;
  ~CoreWait();
  CoreWait(const CoreWait&) = delete;
  CoreWait& operator=(const CoreWait&) = delete;

  void watch(int pid); // 0: no process. Where its file cannot be opened, total_ns() is not known.
  std::int64_t total_ns() const; // runnable, without a core; kUnknown: not known, or the process has ended

 private:
  int fd_ = -1;
};

} // namespace fikit::dispatcher
