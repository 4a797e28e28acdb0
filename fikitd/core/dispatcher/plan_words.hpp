// The words of a client's plan, behind its page (struct fikit_plan): fikitd writes the plan there, and reads what the client reports of it.
// The client may write anything there, so each word is read once and bounded. A client that does not follow its plan makes only itself wait.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "fikit_protocol.h"

namespace fikit::dispatcher {

// The client's report on its plans; the counters are over all plans, and bounded at 2^53.
struct PlanState {
  std::uint32_t number = 0; // of the newest plan that it was given; 0: it has none
  std::uint32_t taken = 0;  // number of the newest plan that it follows; 0: none
  std::uint32_t refused = 0;
  std::uint64_t carried_out = 0;
  std::uint64_t skipped = 0;
  std::uint64_t bytes_per_s = 0; // of as many bytes in as out, as the device timed the moves; 0: not known
};

class PlanWords {
 public:
  explicit PlanWords(fikit_plan* plan) : plan_(plan) {} // nullptr: the file has none

  // moves: an array of struct fikit_plan_move, the moves and behind them the first uses. Returns the number of this plan, which is never the last one's; 0: the file has no room for a
  // plan. Throws std::invalid_argument for what fikit_protocol.h does not allow.
  std::uint32_t set(std::uint64_t first_launch, std::uint32_t launches, std::string_view moves, std::int64_t until_ns);
  // The plan holds until until_ns. first_launch: where a pass begins, if that has changed; the plan gets a new number then. Returns the
  // plan's number; 0: there is no plan. Throws std::invalid_argument for launch 0.
  std::uint32_t renew(std::optional<std::uint64_t> first_launch, std::int64_t until_ns);
  void drop();
  // Goes on with a page of a previous fikitd, whose plan ends by itself. That fikitd's numbers are lost where it took its last plan back, and a client may
  // not have noticed that yet: this one's begin at now_ns in ms, which goes faster than there are plans.
  void resume(std::int64_t now_ns);
  PlanState state() const;

 private:
  std::uint32_t next_number();

  fikit_plan* plan_;
  std::uint32_t given_ = 0; // the newest plan's number; kept here, because the client could overwrite the page's word
  bool has_plan_ = false;
};

} // namespace fikit::dispatcher
