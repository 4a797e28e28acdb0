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

Hold Budget::refused_by_class(const Client& client, std::int64_t length) {
  const auto ask = [this](std::int64_t shortest_ns, std::int64_t longest_ns) { return above_.refusal(shortest_ns, longest_ns); };
  const LengthClass number = LengthClass::of(length);
  const Refusals::Answer& octave = above_.refusals().of_octave(number.octave, ask);
  if (client.priority > octave.above) return octave.hold;
  const Refusals::Answer& eighth = above_.refusals().of_eighth(number, ask);
  return client.priority > eighth.above ? eighth.hold : Hold{};
}

// Of those in classes that are refused, all; said(rows, why) of each class, as far as it is refused to them. The longest classes
// first: where lengths stand in line, nobody is refused what is not refused to a longer one.
template <class Ask, class Said>
Rows Budget::refused(const ByLength& lengths, Refusals& refusals, Ask ask, Said said) const {
  Rows all;
  const auto take = [&](const Rows& of, const Refusals::Answer& answer) {
    if (answer.above > 9) return of;
    const Rows rows = of.from(clients().first_below(answer.above));
    if (rows.any()) said(rows, answer.hold);
    all = all | rows;
    return of.without(rows);
  };
  lengths.each_octave([&](std::size_t octave) {
    const Refusals::Answer& answer = refusals.of_octave(octave, ask);
    const Rows left = take(lengths.of_octave(octave), answer);
    bool longer = true;
    if (left.any())
      lengths.each_class(octave, [&](const LengthClass& number) {
        const Rows rows = left & lengths.of(number);
        if (!rows.any()) return true;
        const Refusals::Answer& part = refusals.of_eighth(number, ask);
        take(rows, part);
        longer = part.above <= 9;
        return longer || !above_.in_line();
      });
    return longer || answer.above <= 9 || !above_.in_line();
  });
  return all;
}

// Those whose length is refused, and that of the run which they begin.
Rows Budget::refused_together(const Rows& due) {
  const Index& index = clients().index();
  const auto of = [&](const ByLength& lengths, auto said) {
    const auto ask = [this](std::int64_t shortest_ns, std::int64_t longest_ns) { return above_.refusal(shortest_ns, longest_ns); };
    return refused(lengths, above_.refusals(), ask, said);
  };
  Rows both = sets().waiting.without(due);
  if (sets().run.any()) both = both & of(index.by_run(), [](const Rows&, const Hold&) {});
  if (!both.any()) return both;
  return of(index.by_length(), [&](const Rows& rows, const Hold& why) { hold(rows & both, why); }) & both;
}

// Of those that are left the ones that may not stand behind the lower work in flight, neither with their kernel nor with its run.
Rows Budget::not_ahead_together(const Rows& left) {
  const Index& index = clients().index();
  const auto of = [&](const ByLength& lengths) {
    const auto ask = [this](std::int64_t shortest_ns, std::int64_t longest_ns) { return above_.ahead_refusal(shortest_ns, longest_ns); };
    return refused(lengths, above_.ahead_refusals(), ask, [](const Rows&, const Hold&) {});
  };
  Rows both = left;
  if (sets().run.any()) both = both & of(index.by_run());
  if (both.any()) both = both & of(index.by_length());
  hold(both, choice_.lower.hold);
  return both;
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
  if (alone && above_.in_line() &&
      (above_.refusal(length_ns, length_ns).above < client.priority ||
       (above_.behind() && above_.ahead_refusal(length_ns, length_ns).above < client.priority)))
    return index.by_length().not_shorter(row) & index.by_run().not_shorter(row);
  return index.by_length().equal(row) & index.by_run().equal(row);
}

// Who of these, of its level, has to wait for this one's next kernel.
Rows Budget::hold_later(const Client& running, const Rows& rows) {
  const Rows later = queue_.go_after(rows, running);
  hold(later, {.reason = Reason::turn, .by = running.id});
  return later;
}

} // namespace fikit::policy
