// How much jobs slow each other on one GPU: the closed form from their busy shares, and measured pairs where there are any.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fikit::placement {

inline constexpr std::size_t kMostResidents = 16; // jobs on one GPU that are reckoned with

// Who goes first on a GPU.
enum class Priorities {
  equal,     // nobody: the GPU is shared evenly
  ordered,   // the first of a list before the second, and so on; where rests are known (offer.hpp) the shorter before the longer
  listed,    // the first of a list before the second, whatever their rests
  automatic, // ordered, unless equal makes the sum of ends smaller (offer.hpp)
};

// How processes share the GPU: the closed form's constants are one set for each.
enum class Device {
  one_queue, // all kernels in one queue, no switch: no GPU, but what the form was derived for
  slices,    // processes take turns, a switch costs time
  mps,       // kernels of all processes overlap
};

// What slows and is slowed.
struct Load {
  double busy = 0; // share of its time alone in which its kernels are on the device, 0 to 1
  int kind = -1;   // its row among measured pairs; -1: none
};

class Slowdowns {
 public:
  // The closed form alone, or with room for pairs of `kinds` kinds. Raises std::invalid_argument beyond 10,000.
  explicit Slowdowns(std::size_t kinds = 0, Device device = Device::one_queue);

  // A measured pair: completion time together / alone, each >= 1 in theory and > 0 by check. With Priorities::equal the order
  // of the two does not matter and both orders are set. Raises std::invalid_argument: a kind out of range, not a number, <= 0.
  void measured(Priorities priorities, std::size_t first, std::size_t second, double slowdown_first, double slowdown_second);

  // Not with Priorities::automatic: that is a choice between the other two. The rate of each job, 1 = as alone, when all of `loads` (highest priority first) are on one GPU. `rates` is as long as `loads`,
  // at most kMostResidents. A pair that was measured goes by that, everything else by the closed form.
  void rates(Priorities priorities, std::span<const Load> loads, std::span<double> rates) const;

 private:
  // A job that has the share s = granted x left^power of the device takes (1 - u) + u / s + crossing x taken as long, u: its busy share.
  struct Form {
    double granted;
    double power;
    double crossing; // what changes between processes cost it, by how much of the device others take
  };
  struct Constants {
    double high_slowdown; // of a job that has others below it
    Form ordered;
    Form equal;
  };
  static Constants constants(Device device);
  struct Pair {
    float first = 0; // 0: not measured
    float second = 0;
  };
  static double rate(const Form& form, double busy, double left, double taken, double least);
  void ordered(std::span<const Load> loads, std::span<double> rates) const;
  void equal(std::span<const Load> loads, std::span<double> rates) const;
  const Pair* pair(Priorities priorities, const Load& first, const Load& second) const;

  std::size_t kinds_;
  Constants form_;
  std::vector<Pair> ordered_;
  std::vector<Pair> equal_;
};

} // namespace fikit::placement
