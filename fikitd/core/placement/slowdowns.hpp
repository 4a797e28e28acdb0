// How much jobs slow each other on one GPU: the closed form from their busy shares, and measured pairs where there are any.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fikit::placement {

inline constexpr std::size_t kMostResidents = 16; // jobs on one GPU that are reckoned with

// Who goes first on a GPU.
enum class Priorities {
  equal,   // nobody: the GPU is shared evenly
  ordered, // the first of a list before the second, and so on
};

// What slows and is slowed.
struct Load {
  double busy = 0; // share of its time alone in which its kernels are on the device, 0 to 1
  int kind = -1;   // its row among measured pairs; -1: none
};

class Slowdowns {
 public:
  // The closed form alone, or with room for pairs of `kinds` kinds. Raises std::invalid_argument beyond 10,000.
  explicit Slowdowns(std::size_t kinds = 0);

  // A measured pair: completion time together / alone, each >= 1 in theory and > 0 by check. With Priorities::equal the order
  // of the two does not matter and both orders are set. Raises std::invalid_argument: a kind out of range, not a number, <= 0.
  void measured(Priorities priorities, std::size_t first, std::size_t second, double slowdown_first, double slowdown_second);

  // The rate of each job, 1 = as alone, when all of `loads` (highest priority first) are on one GPU. `rates` is as long as `loads`,
  // at most kMostResidents. A pair that was measured goes by that, everything else by the closed form.
  void rates(Priorities priorities, std::span<const Load> loads, std::span<double> rates) const;

  // What a high job loses by having anybody below it, what part of the device's idle time lower jobs are granted, and the least
  // share of the device that anybody is reckoned with (the slowest job of 121 measured pairs was slowed 103 times).
  static constexpr double kHighSlowdown = 1.03;
  static constexpr double kGranted = 0.9;
  static constexpr double kLeastShare = 0.01;

 private:
  struct Pair {
    float first = 0; // 0: not measured
    float second = 0;
  };
  const Pair* pair(Priorities priorities, const Load& first, const Load& second) const;

  std::size_t kinds_;
  std::vector<Pair> ordered_;
  std::vector<Pair> equal_;
};

} // namespace fikit::placement
