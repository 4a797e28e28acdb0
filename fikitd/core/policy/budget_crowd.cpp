// Who of a crowd goes next: those are refused together of whom one answer is known to hold for all, and of each level who has had
// least is asked before the others.
#include <algorithm>

#include "budget.hpp"

namespace fikit::policy {

Client* Budget::first_of_crowd() {
  const Rows due = ageing_.all_due(above_.now_ns());
  Rows left = sets().waiting.without(refused_together(due));
  if (above_.behind() && left.any()) left = left.without(not_ahead_together(left));
  while (left.any()) {
    const std::size_t below = clients().first_below(clients().at(left.first()).priority);
    if (Client* best = first_of_level(left.before(below), due)) return best;
    left = left.from(below);
  }
  return nullptr;
}

// What those who wait, if they are refused together, wait for, with the runs which they begin.
Lengths Budget::asked() const {
  const Index& index = clients().index();
  Lengths all = index.by_length().bounds();
  if (!sets().run.any()) return all;
  const Lengths runs = index.by_run().bounds();
  return {.shortest_ns = std::min(all.shortest_ns, runs.shortest_ns), .longest_ns = std::max(all.longest_ns, runs.longest_ns)};
}

// Those to whom somebody above them refuses their length, and that of the run which they begin.
Rows Budget::refused_together(const Rows& due) {
  const Index& index = clients().index();
  const Rows all = sets().waiting.without(due);
  Rows left = all;
  Lengths asked = this->asked();
  for (std::size_t number = 0; number < above_.count() && asked.any(); ++number) {
    Rows rows = left.from(clients().first_below(above_.priority(number)));
    if (!rows.any()) break;
    const Above::Limits limits = above_.limits(number, asked);
    if (limits.granted == asked) continue;
    rows = rows & index.by_length().outside(limits.granted);
    if (sets().run.any()) rows = rows & index.by_run().outside(limits.granted);
    left = left.without(rows);
    hold_outside(limits, rows);
    asked = limits.granted; // those above that come next have no more below them, and of these the others are refused
  }
  return all.without(left);
}

// They are outside these limits.
void Budget::hold_outside(const Above::Limits& limits, Rows rows) {
  const auto hold_longer = [&](std::int64_t ns, Reason reason) {
    if (ns == kNever) return;
    const Rows some = rows & clients().index().by_length().longer(ns);
    hold(some, {.reason = reason, .by = limits.why.by});
    rows = rows.without(some);
  };
  hold_longer(limits.fits_ns, Reason::does_not_fit);
  hold_longer(limits.covered_ns, Reason::budget_spent);
  hold(rows, limits.why);
}

// Of those that are left the ones that may not stand behind the lower work in flight, neither with their kernel nor with its run.
Rows Budget::not_ahead_together(const Rows& left) {
  const Index& index = clients().index();
  Rows all;
  Lengths asked = this->asked();
  for (std::size_t number = 0; number < above_.count() && asked.any(); ++number) {
    const Lengths ahead{.shortest_ns = asked.shortest_ns, .longest_ns = above_.longest_ahead_ns(number, asked)};
    if (ahead == asked) continue;
    Rows rows = left.from(clients().first_below(above_.priority(number))) & index.by_length().outside(ahead);
    if (sets().run.any()) rows = rows & index.by_run().outside(ahead);
    all = all | rows;
    asked = ahead;
  }
  hold(all, choice_.lower.hold);
  return all;
}

Client* Budget::first_of_level(Rows level, const Rows& due) {
  const int priority = clients().at(level.first()).priority;
  const Client* equal = choice_.running[static_cast<std::size_t>(priority)];
  const auto hold_others = [&] {
    if (equal != nullptr) level = level.without(hold_later(*equal, level.without(due)));
  };
  const std::size_t first = queue_.first(priority);
  if (first == kMaxClients || !level.has(first)) hold_others();
  std::size_t best = kMaxClients;
  for (int asked = 0; level.any(); ++asked) {
    constexpr int kInOrder = 4; // to look for the least among all costs more than to ask one
    const std::size_t row = asked < kInOrder ? queue_.first(level) : level.first();
    level.set(row, false);
    if (best < kMaxClients && !queue_.had_less(row, best)) continue;
    Client& client = clients().at(row);
    const Hold why = &client == choice_.asked ? choice_.answered : answer(client);
    if (why.reason != Reason::none) level = level.without(hold_alike(client, why, level, due));
    else if (asked < kInOrder) return &client; // nobody goes before it
    else best = row;
    if (asked == 0) hold_others();
  }
  return best < kMaxClients ? &clients().at(best) : nullptr;
}

// This one, and whom of its level the same is refused to; those.
Rows Budget::hold_alike(const Client& client, const Hold& why, const Rows& level, const Rows& due) {
  const std::size_t row = clients().row(client);
  Rows same;
  if (why.reason != Reason::turn && clients().index().by_length().length_ns(row) >= 0 && !due.has(row))
    same = (alike(client) & level).without(due);
  same.set(row, true);
  hold(same, why);
  return same;
}

// Whom, of its level, what was refused to this one is refused to as well: its equals, and where it stands in line those that
// want more.
Rows Budget::alike(const Client& client) const {
  const Index& index = clients().index();
  const std::size_t row = clients().row(client);
  const std::int64_t length_ns = index.by_length().length_ns(row);
  const bool alone = index.by_run().length_ns(row) == length_ns;
  if (alone && above_.in_line() && above_.refuses(client, length_ns))
    return index.by_length().longer(length_ns - 1) & index.by_run().longer(length_ns - 1);
  return index.by_length().equal(row) & index.by_run().equal(row);
}

// Who of these, of its level, has to wait for this one's next kernel.
Rows Budget::hold_later(const Client& running, const Rows& rows) {
  const Rows later = queue_.go_after(rows, running);
  hold(later, {.reason = Reason::turn, .by = running.id});
  return later;
}

} // namespace fikit::policy
