// Who goes first on a GPU: --fikit-priority=auto. Asked whenever a job comes or goes, or is expected to take another time than before.
#pragma once

#include <cstddef>
#include <span>

#include "history.hpp"
#include "offer.hpp"
#include "slowdowns.hpp"

namespace fikit::placement {

// Hysteresis: a job passes one that is there already only with less than this part of its expected rest; and jobs that stay the same change
// between an order and none only where the sum of their ends becomes smaller than this part.
inline constexpr double kPassesBelow = 0.8;
inline constexpr double kSwitchesBelow = 0.95;
// The floor: one that has waited for so long below others gets its turn, in which all are equal.
inline constexpr double kPatienceS = 3600;
inline constexpr double kTurnS = 180;

struct Contender {
  double rest_s = kNoLimit; // expected, alone on a GPU; kNoLimit: nobody knows
  Load load;
  double waited_s = 0;  // for others, while it was below one; 0 again when it is first, and when a turn begins
  bool is_new = true;   // it was not there at the last choice
};

struct Precedence {
  Priorities priorities = Priorities::equal; // or ordered
  double turn_s = 0; // so long all stay equal, because one has waited for long
  std::size_t jobs = 0; // among whom it was chosen
  Ends ends; // expected, without further turns
};

// The choice, `passed_s` later: of a turn that is over nothing is left, so that the next choice is a free one.
Precedence later(Precedence precedence, double passed_s);

// contenders: in the order of the last choice, new ones last; at most kMostResidents. last: that choice, as it is now (`later`).
// order: as long; indices of contenders, the first one first. It is an order also where all are equal now.
// Equal, where of one of them nobody knows how long it will take; else by the rule of Priorities::automatic.
Precedence choose(const Slowdowns& slowdowns, std::span<const Contender> contenders, const Precedence& last, std::span<std::size_t> order);

} // namespace fikit::placement
