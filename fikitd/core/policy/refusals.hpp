// Which of those that wait need not be looked at: their kernels cost somebody above them too much, whatever their length is
// within a class.
//
// A delay grows with the length of the kernel that causes it, and what may be paid for it does too. So what cannot be paid
// for the shortest kernel of a class by the means for the longest one cannot be paid for any of it. A decision asks once for
// lengths that differ by less than a factor of two, and where these are not refused together, for eighths of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "by_length.hpp"
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
  const Answer& of_octave(std::size_t number, Ask ask) {
    const std::uint64_t bit = std::uint64_t{1} << number;
    Octave& octave = octaves_[number];
    if ((known_ & bit) == 0) {
      known_ |= bit;
      octave.known = 0;
      octave.answer = ask(LengthClass::shortest_of(number), LengthClass::longest_of(number));
    }
    return octave.answer;
  }
  // After its octave.
  template <class Ask>
  const Answer& of_eighth(const LengthClass& number, Ask ask) {
    const std::uint32_t bit = 1U << number.eighth;
    Octave& octave = octaves_[number.octave];
    if ((octave.known & bit) == 0) {
      octave.known |= bit;
      octave.eighths[number.eighth] = ask(number.shortest_ns(), number.longest_ns());
    }
    return octave.eighths[number.eighth];
  }

 private:
  struct Octave {
    Answer answer;
    std::uint32_t known = 0; // eighths
    std::array<Answer, LengthClass::kEighths> eighths{};
  };
  std::uint64_t known_ = 0; // octaves
  std::array<Octave, LengthClass::kOctaves> octaves_{};
};

} // namespace fikit::policy
