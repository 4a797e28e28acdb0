// Who of those that wait goes next, and when to ask again. Of a crowd those are refused together of whom one answer is known to
// hold for all, and who has had least of its level is asked before the others.
#include <algorithm>
#include <bit>
#include <utility>

#include "budget.hpp"

namespace fikit::policy {

Client* Budget::choose(std::int64_t now_ns) {
  lower_ = lower_work(now_ns);
  ages_ = ageing();
  crowd_ = sets().waiting.at_least(kCrowd);
  const std::int64_t ahead_ns = lower_.end_ns - now_ns;
  if (ahead_ns > deepest_ns()) {
    hold(sets().waiting, lower_.hold);
    return goes(nullptr, {});
  }
  see_running();
  const View seen = view(now_ns, 0, chosen_ != nullptr);
  const bool ahead = static_cast<double>(ahead_ns) > options().tuning.near_ns;
  Choice choice{.seen = seen,
                .equals = equals_,
                .ahead_ns = ahead_ns,
                .nothing_below = ahead ? nothing_ahead_below(seen) : 10,
                .deep = ahead_ns > options().run_ahead_ns};
  refusals_.forget();
  if (!crowd_) return goes(first_of_few(choice), seen);
  Client* first = first_of_all(choice);
  return goes(first != nullptr ? first : first_of_crowd(choice), seen);
}

// Nobody, or it: then everything is asked anew, of those that are left.
Client* Budget::goes(Client* client, const View& seen) {
  chosen_ = client;
  if (client == nullptr) return nullptr;
  if (shares_[client->slot].whole_run) spend(*client, client->run_ns, client->run_ns, seen);
  else spend(*client, cautious_ns(*client), length_ns(*client), seen);
  return client;
}

// Since the last choice of this decision only whom that chose was granted something.
void Budget::see_running() {
  if (chosen_ == nullptr) {
    equals_ = lower_.granted ? running() : Running{};
    return;
  }
  const Client*& least = equals_[static_cast<std::size_t>(chosen_->priority)];
  if (least == nullptr || goes_before(*chosen_, *least)) least = chosen_;
}

Client* Budget::first_of_few(const Choice& choice) {
  Client* best = nullptr;
  for (Client& client : clients().among(sets().waiting)) {
    if (best != nullptr && best->priority != client.priority) break; // and all behind it
    if (best != nullptr && !goes_before(client, *best)) continue;
    const Hold why = answer(client, choice);
    hold(client, why);
    if (why.reason == Reason::none) best = &client;
  }
  return best;
}

Hold Budget::answer(Client& client, const Choice& choice) {
  const bool due = aged(client, choice.seen.now_ns, ages_);
  const Client* equal = choice.equals[static_cast<std::size_t>(client.priority)];
  if (!due && goes_after(client, equal)) return {.reason = Reason::turn, .by = equal->id};
  if (client.grant_count == kMaxGrants) return {.reason = Reason::run_ahead, .by = client.id};
  if (client.waiting_duration_ns < 0 && (choice.ahead_ns != 0 || client.grant_count != 0))
    return {.reason = Reason::unknown, .by = choice.ahead_ns > 0 ? lower_.hold.by : client.id};
  return refused(client, due, choice);
}

Hold Budget::refused(Client& client, bool due, const Choice& choice) {
  Share& share = shares_[client.slot];
  share.whole_run = client.run_launches > 1 && options().tuning.longest_run > 1 &&
                    obstacle(client, client.run_ns, choice.seen, choice.by_class).reason == Reason::none;
  const Hold hold = share.whole_run || due ? Hold{} : obstacle(client, cautious_ns(client), choice.seen, choice.by_class);
  if (hold.reason != Reason::none) return hold;
  if (client.priority > choice.nothing_below) return lower_.hold;
  if (!choice.deep) return hold;
  const std::int64_t chosen_ns = share.whole_run ? client.run_ns : cautious_ns(client);
  return may_go_deep(client, chosen_ns, choice.seen) ? Hold{} : lower_.hold;
}

// Of the highest level that waits, who has had least: if it may go, nothing need be asked about the others.
Client* Budget::first_of_all(Choice& choice) {
  Client* first = first_in_line(clients().at(sets().waiting.first()).priority);
  const Hold why = answer(*first, choice);
  if (why.reason == Reason::none) return first;
  // If its class is not refused, it need not be asked again. It may be that of its run, or have none: then it is.
  const std::size_t row = clients().row(*first);
  if (!sets().run.has(row) && clients().index().by_length().length_ns(row) >= 0) choice.asked = first, choice.asked_hold = why;
  choice.by_class = true;
  return nullptr;
}

Client* Budget::first_of_crowd(const Choice& choice) {
  const Rows aged = all_aged(choice.seen.now_ns);
  Rows left = sets().waiting.without(refused_together(aged, choice));
  if (choice.deep && left.any()) left = left.without(not_deep_together(left, choice));
  while (left.any()) {
    const std::size_t below = clients().first_below(clients().at(left.first()).priority);
    if (Client* best = first_of_level(left.before(below), aged, choice)) return best;
    left = left.from(below);
  }
  return nullptr;
}

// The longest classes first: where lengths stand in line, nobody is refused what is not refused to a longer one.
template <class Ask, class Said>
Rows Budget::refused(const ByLength& lengths, Refusals& refusals, const View& view, Ask ask, Said said) {
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
        return longer || !view.in_line();
      });
    return longer || answer.above <= 9 || !view.in_line();
  });
  return all;
}

// Those whose length is refused, and that of the run which they begin.
Rows Budget::refused_together(const Rows& aged, const Choice& choice) {
  const Index& index = clients().index();
  const auto ask = [&](std::int64_t shortest_ns, std::int64_t longest_ns) {
    return refusal_of(shortest_ns, longest_ns, choice.seen);
  };
  Rows both = sets().waiting.without(aged);
  if (sets().run.any()) both = both & refused(index.by_run(), refusals_, choice.seen, ask, [](const Rows&, const Hold&) {});
  if (!both.any()) return both;
  const auto said = [&](const Rows& rows, const Hold& why) { hold(rows & both, why); };
  return refused(index.by_length(), refusals_, choice.seen, ask, said) & both;
}

// Of those that are left the ones that may not stand behind so much, neither with their kernel nor with its run.
Rows Budget::not_deep_together(const Rows& left, const Choice& choice) {
  const Index& index = clients().index();
  deep_refusals_.forget();
  const auto ask = [&](std::int64_t shortest_ns, std::int64_t longest_ns) {
    return deep_refusal_of(shortest_ns, longest_ns, choice.seen);
  };
  const auto of = [&](const ByLength& lengths) {
    return refused(lengths, deep_refusals_, choice.seen, ask, [](const Rows&, const Hold&) {});
  };
  Rows both = left;
  if (sets().run.any()) both = both & of(index.by_run());
  if (both.any()) both = both & of(index.by_length());
  hold(both, lower_.hold);
  return both;
}

// Whom, of its level, what was refused to this one is refused to as well: its equals, and where it stands in line those that
// want more.
Rows Budget::alike(const Client& client, const Choice& choice) const {
  const Index& index = clients().index();
  const std::size_t row = clients().row(client);
  const std::int64_t length_ns = index.by_length().length_ns(row);
  const bool alone = index.by_run().length_ns(row) == length_ns;
  if (alone && choice.seen.in_line() &&
      (refusal_of(length_ns, length_ns, choice.seen).above < client.priority ||
       (choice.deep && deep_refusal_of(length_ns, length_ns, choice.seen).above < client.priority)))
    return index.by_length().not_shorter(row) & index.by_run().not_shorter(row);
  return index.by_length().equal(row) & index.by_run().equal(row);
}

Client* Budget::first_of_level(Rows level, const Rows& aged, const Choice& choice) {
  const int priority = clients().at(level.first()).priority;
  if (priority > choice.nothing_below) {
    hold(level, lower_.hold);
    return nullptr;
  }
  const Client* equal = choice.equals[static_cast<std::size_t>(priority)];
  const auto hold_others = [&] {
    if (equal != nullptr) level = level.without(hold_later(*equal, level.without(aged)));
  };
  const Client* first = first_in_line(priority);
  if (first == nullptr || !level.has(clients().row(*first))) hold_others();
  std::size_t best = kMaxClients;
  for (int asked = 0; level.any(); ++asked) {
    constexpr int kInOrder = 4; // to look for the least among all costs more than to ask one
    const std::size_t row = asked < kInOrder ? least_of(level) : level.first();
    level.set(row, false);
    if (best < kMaxClients && line_.key(row) >= line_.key(best)) continue;
    Client& client = clients().at(row);
    const Hold why = &client == choice.asked ? choice.asked_hold : answer(client, choice);
    if (why.reason != Reason::none) level = level.without(hold_alike(client, why, level, aged, choice));
    else if (asked < kInOrder) return &client; // nobody goes before it
    else best = row;
    if (asked == 0) hold_others();
  }
  return best < kMaxClients ? &clients().at(best) : nullptr;
}

// This one, and whom of its level the same is refused to; those.
Rows Budget::hold_alike(const Client& client, const Hold& why, const Rows& level, const Rows& aged, const Choice& choice) {
  const std::size_t row = clients().row(client);
  Rows same;
  if (why.reason != Reason::turn && clients().index().by_length().length_ns(row) >= 0 && !aged.has(row))
    same = (alike(client, choice) & level).without(aged);
  same.set(row, true);
  hold(same, why);
  return same;
}

// What a client was served is not negative, and such numbers are in the order of their bits.
void Budget::put_in_line(const Client& client) {
  if (!line_known_) return;
  line_.set(clients().row(client), client.waiting ? std::bit_cast<std::int64_t>(shares_[client.slot].served_ns) : kNever);
}

void Budget::know_line() {
  if (std::exchange(line_known_, true)) return;
  line_.clear(clients().span().size());
  most_ns_.fill(0);
  for (const Client& client : clients().span()) see_served(client);
  for (const Client& client : clients().among(sets().waiting)) put_in_line(client);
}

// Of those of a level that wait, who has had least; nullptr: nobody waits.
Client* Budget::first_in_line(int priority) {
  know_line();
  for (;;) {
    const std::size_t row = line_.best_row(clients().first_of(priority), clients().first_below(priority));
    if (row == line_.size()) return nullptr;
    if (sets().waiting.has(row)) return &clients().at(row);
    line_.set(row, kNever); // it has gone
  }
}

// Of these, which wait, who has had least; of equals the first.
std::size_t Budget::least_of(const Rows& rows) const {
  std::size_t least = rows.first();
  for (std::size_t row = rows.next(least + 1); row < kMaxClients; row = rows.next(row + 1))
    if (line_.key(row) < line_.key(least)) least = row;
  return least;
}

// Who of these, of its level, has to wait for this one's next kernel.
Rows Budget::hold_later(const Client& running, const Rows& rows) {
  const double most_ns = shares_[running.slot].served_ns + options().tuning.behind_ns;
  Rows later;
  if (most_ns_[static_cast<std::size_t>(running.priority)] <= most_ns) return later;
  for (std::size_t row = rows.first(); row < kMaxClients; row = rows.next(row + 1))
    later.set(row, line_.key(row) > std::bit_cast<std::int64_t>(most_ns));
  hold(later, {.reason = Reason::turn, .by = running.id});
  return later;
}

Rows Budget::all_aged(std::int64_t now_ns) {
  const Index::First& since = clients().index().since();
  if (since.best() > now_ns - ages_.ns) return {};
  const auto waited = [&](std::size_t row, std::int64_t ns) {
    Rows rows;
    while ((row = since.first(row, now_ns - ns)) < since.size()) rows.set(row++, true);
    return rows & sets().waiting;
  };
  const Rows old = waited(0, ages_.ns);
  if (!old.any()) return old;
  see_overdrawn(ages_);
  const std::size_t guarded = clients().first_below(ages_.guard);
  return old.before(guarded) | (old & waited(guarded, ages_.guarded_ns));
}

// When the next of those who wait has waited for so long that it may go whatever it costs.
std::int64_t Budget::next_due_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = kNever;
  const auto due = [&](std::int64_t waited_ns, std::int64_t ns) {
    if (waited_ns < ns) next_ns = std::min(next_ns, now_ns + std::min(ns - waited_ns, kHorizonNs));
  };
  const std::int64_t longest_ns = now_ns - clients().index().since().best();
  if (longest_ns < ages_.ns) {
    due(longest_ns, ages_.ns);
    return next_ns;
  }
  for (const Client& client : clients().among(clients().index().at_gate())) {
    const std::int64_t waited_ns = now_ns - client.waiting_since_ns;
    due(waited_ns, waited_ns < ages_.ns ? ages_.ns : ages_.of(client));
  }
  return next_ns;
}

std::int64_t Budget::next_change_ns(std::int64_t now_ns) const {
  // Expected delays change as time goes by without an event: look again when they may have become affordable.
  constexpr std::int64_t kAgainNs = 50'000;
  constexpr std::int64_t kAgainShare = 16;
  const std::int64_t longest_ns = std::max<std::int64_t>(0, now_ns - clients().index().since().best());
  std::int64_t next_ns = std::min(next_end_ns(now_ns), next_due_ns(now_ns));
  std::int64_t steady_ns = sets().copying.any() ? now_ns : kNever; // for all that wait
  told().each(sets().waiting, [&](const Rows&, const Hold& why) {
    steady_ns = std::min(steady_ns, why.reason == Reason::behind ? behind_until_ns(why.by, now_ns) : now_ns);
  });
  const std::int64_t ahead_ns = lower_.end_ns - options().run_ahead_ns;
  if (ahead_ns > now_ns) next_ns = std::min(next_ns, ahead_ns);
  const std::int64_t near_ns = lower_.end_ns - static_cast<std::int64_t>(options().tuning.near_ns);
  if (near_ns > now_ns) next_ns = std::min(next_ns, near_ns);
  return std::min(next_ns, std::max(steady_ns, now_ns + std::max(kAgainNs, longest_ns / kAgainShare)));
}

} // namespace fikit::policy
