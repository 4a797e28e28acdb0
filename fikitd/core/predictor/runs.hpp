// What a client launches next: from this kernel on, so many launches follow each other without a wait of its host, and take
// so much of the device together. So one decision can be about several short kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel.hpp"

namespace fikit::predictor {

// It ends before a wait, a kernel of unknown length, and at the limits below.
struct Run {
  std::uint32_t launches = 1;
  std::int64_t work_ns = -1; // negative: unknown
};

// What runs of the program before this one have learnt, by place: a hash of the kernel and the three before it.
using RunsLearnt = std::vector<std::pair<std::uint64_t, Run>>;

class Runs {
 public:
  static constexpr std::size_t kMaxLaunches = 32;
  static constexpr std::int64_t kMaxNs = 200'000; // of work; as Tuning::longest_run_ns has it
  static constexpr std::size_t kMaxPlaces = 65536; // a program cannot fill the daemon's memory

  Runs() = default;
  explicit Runs(std::int64_t longest_ns) : longest_ns_(longest_ns) {} // other than kMaxNs

  void launched(Identity identity, std::int64_t duration_ns); // negative: unknown
  void waited();
  // Begin with what earlier runs have learnt, where this one has learnt nothing yet.
  void expect(const RunsLearnt& before);
  // Of this run alone, where a second time has confirmed it; the longest first, at most kMaxLearnt.
  static constexpr std::size_t kMaxLearnt = 16384;
  RunsLearnt learnt() const;

  // If this is launched next.
  Run starting(Identity identity, std::int64_t duration_ns) const;

 private:
  struct Begun {
    std::uint64_t place = 0;
    std::int64_t before_ns = 0; // work before it
  };
  struct Known {
    Run run;
    unsigned seen = 0; // by this run; counted to 2
  };
  std::uint64_t place(Identity identity) const; // after the last three
  void end_oldest();

  std::int64_t longest_ns_ = kMaxNs;
  std::unordered_map<std::uint64_t, Known> known_;
  Context context_;
  std::array<Begun, kMaxLaunches> begun_{}; // a ring: the newest launches, whose runs still go on
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::int64_t work_ns_ = 0;
};

} // namespace fikit::predictor
