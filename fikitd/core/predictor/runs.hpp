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

namespace fikit::predictor {

// It ends before a wait, a kernel of unknown length, and at the limits below.
struct Run {
  std::uint32_t launches = 1;
  std::int64_t work_ns = -1; // negative: unknown
};

// From one launch on.
struct Ahead {
  Run run;
  Run long_run; // within wider limits; never less
};

// What runs of the program before this one have learnt, by place: a hash of the kernel and the three before it.
using RunsLearnt = std::vector<std::pair<std::uint64_t, Run>>;

class Runs {
 public:
  static constexpr std::size_t kMaxLaunches = 32;
  static constexpr std::int64_t kMaxNs = 200'000; // of work; as Tuning::longest_run_ns has it
  static constexpr std::size_t kMaxLongLaunches = 256;  // of a long run
  static constexpr std::int64_t kMaxLongNs = 1'000'000; // as Tuning::rest_run_ns has it
  static constexpr std::size_t kMaxPlaces = 65536; // a program cannot fill the daemon's memory

  Runs() = default;
  // With other limits than kMaxNs and kMaxLongNs.
  Runs(std::int64_t most_ns, std::int64_t long_most_ns)
      : run_{.most = kMaxLaunches, .most_ns = most_ns},
        long_run_{.most = kMaxLongLaunches, .most_ns = std::max(most_ns, long_most_ns)} {}

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
    Run run;
    Run long_run{.launches = 0}; // 0: not seen
    unsigned seen = 0; // by this run; counted to 2
  };
  struct Kind {            // of runs
    std::size_t most = 0;  // launches
    std::int64_t most_ns = 0;
    std::size_t oldest = 0; // the launch with which the oldest one began that goes on still; counted from the first of all
  };
  std::uint64_t place(Identity identity) const; // after the last three
  Begun& begun(std::size_t launch) { return begun_[launch % kMaxLongLaunches]; }
  void end_those_before(Kind& kind, std::int64_t end_ns);
  void end_oldest(Kind& kind);
  static void see(Run& known, const Run& seen);

  static constexpr std::size_t kPlaceBytes = sizeof(std::pair<std::uint64_t, Known>) + 4 * sizeof(void*);

  Claim claim_;
  std::unordered_map<std::uint64_t, Known> known_;
  Context context_;
  std::array<Begun, kMaxLongLaunches> begun_{}; // a ring: the newest launches
  std::size_t launches_ = 0;
  Kind run_{.most = kMaxLaunches, .most_ns = kMaxNs};
  Kind long_run_{.most = kMaxLongLaunches, .most_ns = kMaxLongNs};
  std::int64_t work_ns_ = 0;
};

} // namespace fikit::predictor
