// The policy `budget`: lower work runs whenever the delay that it is expected to cause fits into what is left of the higher
// clients' slowdown budgets (Account). docs/scheduling.md explains it.
//
//  - Levels are relative: a client's kernel must be affordable to every client above it.
//  - Lower work in flight is bounded by run_ahead_ns, so that the grant that follows a kernel is there before its end; where it
//    costs next to nothing, by much more. A kernel of unknown length runs alone. One that waits for others of its job waits
//    until everybody above is idle.
//  - A run goes on while it is under way, as long as what follows would be granted too.
//  - Higher levels choose first; within a level the client that had least of the device (fair queueing), and who has had much
//    more than one whose kernel runs waits for that one's next. Who cannot go does not keep others from going.
//  - A request that has waited for ageing_ns goes next, whatever it costs; below a client with a max_delay, while what it was
//    cost before is not paid, and while others may wait behind a request of it, only after guarded_ageing times as long.
#pragma once

#include <array>

#include "above.hpp"
#include "ageing.hpp"
#include "copies.hpp"
#include "fair_queue.hpp"
#include "level_policy.hpp"

namespace fikit::policy {

class Budget final : public LevelPolicy {
 public:
  using LevelPolicy::LevelPolicy;
  bool looks_ahead() const override { return true; }

 private:
  void learn(const LevelPolicy& higher) override;
  void noted(const Event& event, const Client& client) override;
  void noted_given(const Given& given, const Client& client, std::int64_t now_ns) override;
  void noted_done_below(const Event& event) override;
  std::int64_t charged_ns(const Client& client, const Launches& granted) const override { return asked_ns(client, granted); }
  Client* choose(std::int64_t now_ns) override;
  Launches granted(const Client& client) const override { return granted_[client.slot]; }
  Extension extended(std::int64_t now_ns) override;
  Client* overstaying(std::int64_t now_ns) override;
  CopyEngines copies_that_matter(const Client& client) const override { return copies_.that_matter(client); }
  Client* choose_copy(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;

  // What happened.
  void overran(const Client& client, std::int64_t ns);
  void see_guess(const Event& event, const Client& client);
  void see_doubts();
  void see_doubts(const Client& client);

  // What is in flight.
  struct Lower { // work of lower clients
    std::int64_t end_ns = 0; // as far as is known; a lease from now when it is not
    Hold hold;               // of those that stand behind it
    bool granted = false;    // some of it was granted, and is not known to be complete
  };
  Lower lower_work(std::int64_t now_ns) const;
  std::int64_t deepest_ns() const; // nobody may stand in line behind more than this
  // By level: of those whose kernel runs and whose next one cannot be granted yet, who has had least; nullptr: there is none.
  using Running = std::array<const Client*, 10>;
  Running running() const;

  // What is asked for.
  std::int64_t length_ns(const Client& client) const;
  std::int64_t cautious_ns(const Client& client) const;
  // What is asked about: of a run all of it, of one kernel a careful guess.
  std::int64_t asked_ns(const Client& client, const Launches& granted) const {
    return granted.launches > 1 ? granted.work_ns : cautious_ns(client);
  }
  void spend(const Client& client, std::int64_t length_ns, std::int64_t served_ns);

  // Who goes (budget_choice.cpp): what one choice is made from. Of those before it, in the same decision, only `chosen` is left;
  // of the last one, which chose nobody, the rest, until the next decision.
  struct Choice {
    Client* chosen = nullptr; // by the one before, and then by this one
    Lower lower;
    std::int64_t ahead_ns = 0; // of lower work is in flight
    Running running{};
    bool crowd = false;            // so many wait that lengths are asked about
    const Client* asked = nullptr; // before that, and what it was answered holds then too
    Hold answered;
  };
  static constexpr std::size_t kCrowd = 8;
  void begin_choice(std::int64_t now_ns);
  void see_running();
  Client* goes(Client* client);
  Hold answer(const Client& client);
  Hold refused(const Client& client, bool due);
  Hold obstacle(const Client& client, std::int64_t length_ns);
  Client* first_of_few();
  Client* first_of_all();
  void lengthen(const Client& client);
  void see_refusals(std::int64_t now_ns);
  void note_refusals();
  bool may_extend(const Client& client, std::int64_t now_ns) const;
  bool all_at_ease(const Client& client, std::int64_t now_ns) const;
  bool may_become_longer(const Client& client, const Launches& to);
  std::int64_t nobody_waits_from_ns(std::int64_t now_ns) const;
  std::int64_t behind_until_ns(ClientId id, std::int64_t now_ns) const;

  // Who goes of a crowd (budget_crowd.cpp): those are refused together of whom one answer is known to hold for all.
  Client* first_of_crowd();
  Client* first_of_level(Rows level, const Rows& due);
  Rows refused_together(const Rows& due);
  Rows not_ahead_together(const Rows& left);
  Lengths asked() const;
  void hold_outside(const Above::Limits& limits, Rows rows);
  Rows alike(const Client& client) const;
  Rows hold_alike(const Client& client, const Hold& why, const Rows& level, const Rows& due);
  Rows hold_later(const Client& running, const Rows& rows);

  // Copies (budget_copies.cpp).
  Hold copy_obstacle(const Client& client, std::int64_t now_ns) const;
  void copy_done(const Event& event);
  void grant_copy(const Copies::Asked& copy, std::uint32_t request, std::int64_t now_ns);

  // By slot: of a client as a higher one, and as a lower one.
  std::array<Account, kMaxClients> accounts_{};
  std::array<bool, kMaxClients> doubtful_{}; // accounts, as seen at their clients' last events
  struct Guess { // of a client's kernels of unknown length
    std::int64_t length_ns = 100'000;
    std::int64_t asked_ns = 0; // when one of these was granted; 0: none is in flight
  };
  std::array<Guess, kMaxClients> guesses_{};
  std::array<Launches, kMaxClients> granted_{}; // that it goes was the answer about these
  FairQueue queue_{clients(), options().tuning};
  Ageing ageing_{clients(), accounts_, options()};
  Above above_{clients(), accounts_, options()};
  Copies copies_{clients(), options()};
  Choice choice_;
  struct { // lower work stands at the gate for the sake of these, since the last decision
    std::int64_t since_ns = 0;
    std::array<std::size_t, kMaxClients> slots{};
    std::size_t count = 0;
  } refused_for_;
};

} // namespace fikit::policy
