// Why a launch stands at a closed gate, and for whom: said by a policy of every client that waits after a decision.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace fikit::policy {

using ClientId = std::uint32_t;

// Names and what is told of them to people: kReasonNames, and fikitd/fikitd/api/held.py.
enum class Reason : std::uint8_t {
  none,         // nobody has decided since it came
  behind,       // a higher client's work is on the device, or due at once, or waits itself
  does_not_fit, // it is longer than what the higher client's idle time can spare, or waits for others and fills no gap
  budget_spent, // what is left of the higher client's slowdown budget does not cover it
  turn,         // another client of the same priority goes first
  run_ahead,    // as much lower work is in flight as may be; by: whose, possibly its own
  unknown,      // nobody knows how long it runs, so it runs when nothing else does
  uncertain,    // how far another client is, is not known: until it says so, or its lease ends
  limit,        // so many launches in a period and no more (tgs)
  // Of no policy, said by the dispatcher:
  reaction,   // its own time, until it sees the request, and until the client sees the grant
  lower_work, // no gate: work stood on the device while a lower client's ran there
  memory,     // its memory has to be elsewhere while that of others is on the GPU (docs/memory.md)
};
inline constexpr std::array<std::string_view, 12> kReasonNames{
    "none",      "behind", "does_not_fit", "budget_spent", "turn", "run_ahead", "unknown",
    "uncertain", "limit",  "reaction",     "lower_work", "memory"};

struct WaitReason {
  Reason reason = Reason::none;
  ClientId by = 0; // who is blamed; without meaning for none

  bool operator==(const WaitReason&) const = default;
};

} // namespace fikit::policy
