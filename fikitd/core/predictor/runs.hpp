// What a client launches next: from this kernel on, so many launches follow each other without a wait of its host, and take
// so much of the device together. So one decision can be about several short kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel.hpp"
#include "room.hpp"
#include "types/launches.hpp"

namespace fikit::predictor {

// From one launch on. A run ends before a wait, a kernel of unknown length, and at its limits.
struct Ahead {
  Launches run;
  Launches long_run; // within wider limits; never less
};

// What runs of the program before this one have learnt, by place: a hash of the kernel and the three before it.
using RunsLearnt = std::vector<std::pair<std::uint64_t, Launches>>;

class Runs {
 public:
  static constexpr std::size_t kMaxPlaces = 65536; // a program cannot fill the daemon's memory

  Runs() = default;
  // With other limits of work than kRunLimit's and kLongRunLimit's.
  Runs(std::int64_t most_ns, std::int64_t long_most_ns)
      : run_{.most = kRunLimit.launches, .most_ns = most_ns},
        long_run_{.most = kLongRunLimit.launches, .most_ns = std::max(most_ns, long_most_ns)} {}

  // From now on only as much is learnt as this has room for.
  void keep_within(std::shared_ptr<Room> room) { claim_ = Claim(std::move(room)); }

  void launched(Identity identity, std::int64_t duration_ns); // negative: unknown
  void waited();
  // Begin with what earlier runs have learnt, where this one has learnt nothing yet.
  void expect(const RunsLearnt& before);
  // Of this run alone, where a second time has confirmed it; the longest first, at most kMaxLearnt. Not long runs: one pass
  // through what the program repeats teaches them.
  static constexpr std::size_t kMaxLearnt = 16384;
  RunsLearnt learnt() const;
  void forget_long_runs(); // as if this were what a profile holds

  // If this is launched next.
  Ahead starting(Identity identity, std::int64_t duration_ns) const;

 private:
  struct Begun {
    std::uint64_t place = 0;
    std::int64_t before_ns = 0; // work before it
  };
  struct Known {
    Launches run;
    Launches long_run{.launches = 0}; // 0: not seen
    unsigned seen = 0; // by this run; counted to 2
  };
  struct Kind {            // of runs
    std::size_t most = 0;  // launches
    std::int64_t most_ns = 0;
    std::size_t oldest = 0; // the launch with which the oldest one began that goes on still; counted from the first of all
  };
  std::uint64_t place(Identity identity) const; // after the last three
  Begun& begun(std::size_t launch) { return begun_[launch % kLongRunLimit.launches]; }
  void end_those_before(Kind& kind, std::int64_t end_ns);
  void end_oldest(Kind& kind);
  static void see(Launches& known, const Launches& seen);

  static constexpr std::size_t kPlaceBytes = sizeof(std::pair<std::uint64_t, Known>) + 4 * sizeof(void*);

  Claim claim_;
  std::unordered_map<std::uint64_t, Known> known_;
  Context context_;
  std::array<Begun, kLongRunLimit.launches> begun_{}; // a ring: the newest launches
  std::size_t launches_ = 0;
  Kind run_{.most = kRunLimit.launches, .most_ns = kRunLimit.work_ns};
  Kind long_run_{.most = kLongRunLimit.launches, .most_ns = kLongRunLimit.work_ns};
  std::int64_t work_ns_ = 0;
};

} // namespace fikit::predictor
