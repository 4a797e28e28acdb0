// Which of those that wait need not be looked at: their kernels cost somebody above them too much, whatever their length is
// within a factor of two.
//
// A delay grows with the length of the kernel that causes it, and what may be paid for it does too. So what cannot be paid
// for the shortest kernel of a class by the means for the longest one cannot be paid for any of it. Lengths that differ by
// less than a factor of two are one class, and a decision asks once for each class that waits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "reason.hpp"

namespace fikit::policy {

class Refusals {
 public:
  struct Answer {
    int above = 10; // refused to all below a client of this priority
    Hold hold;
  };

  void forget() { known_ = 0; }

  // ask(shortest, longest) -> Answer, of a class; asked at most once for each since forget().
  template <class Ask>
  const Answer& of(std::int64_t length_ns, Ask ask) {
    const auto number = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(length_ns, 0))));
    const std::uint64_t bit = std::uint64_t{1} << number; // of a positive length: below 64
    if ((known_ & bit) == 0) {
      known_ |= bit;
      const std::uint64_t shortest_ns = number == 0 ? 0 : bit / 2;
      answers_[number] = ask(static_cast<std::int64_t>(shortest_ns), static_cast<std::int64_t>(bit - 1));
    }
    return answers_[number];
  }

 private:
  std::uint64_t known_ = 0; // classes
  std::array<Answer, 64> answers_{};
};

} // namespace fikit::policy
