// The clock of pages, events and leases: CLOCK_MONOTONIC in ns.
#pragma once

#include <cstdint>
#include <ctime>

namespace fikit::dispatcher {

inline std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

} // namespace fikit::dispatcher
