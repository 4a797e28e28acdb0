// The policy `budget`: lower work goes as long as its gain is worth the delay of the clients above. See README.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "audit.hpp"
#include "copies.hpp"
#include "forecast.hpp"
#include "policy/base/level_policy.hpp"
#include "shares.hpp"
#include "slowdown_budget.hpp"
#include "suspects.hpp"
#include "types/fear.hpp"
#include "unconfirmed.hpp"

namespace fikit::policy::budget {

class Budget final : public LevelPolicy {
 public:
  using LevelPolicy::LevelPolicy;
  bool looks_ahead() const override { return true; }

 private:
  // What a switch between clients takes. Until fikitd has measured one, the policy assumes the longest that an H200 takes (docs/measured.md).
  static constexpr double kAssumedSwitch = 0.225; // share of Tuning::turn_ns
  std::int64_t switch_ns() const { return device().switch_ns >= 0 ? device().switch_ns : static_cast<std::int64_t>(kAssumedSwitch * options().tuning.turn_ns); }
  std::int64_t switch_ns(const Client& one, const Client& other) const { return one.runs_beside(other) ? 0 : switch_ns(); }
  std::int64_t switch_to_ns(const Client& client) const { // from the client that holds the device
    return holder_.id == client.id || (holder_.overlaps && client.overlaps) ? 0 : switch_ns();
  }

  // What happened (budget.cpp).
  void learn(const LevelPolicy& higher) override;
  void noted(const Event& event, const Client& client) override;
  void noted_given(const Given& given, const Client& client, std::int64_t now_ns) override;
  void noted_done_below(const Event& event) override;
  void confirmed(const Event& event, const Client& client);
  void came(const Client& client, std::int64_t now_ns);
  void waited(const Event& event, const Client& client);
  void see_stop(const Client& client, bool stopped, std::int64_t now_ns);
  void set_keeper(const Client& client, bool keeps);
  void host_stands(const Event& event, const Client& client);
  bool stands(const Client& client, std::int64_t now_ns) const {
    return client.stands || budgets_[client.slot].silent(now_ns, options().lease_ns);
  }
  void overran(const Client& client, std::int64_t ns);
  void takes_device(const Client& client, std::int64_t t_ns, std::int64_t length_ns);
  void see_doubts();
  void see_rest(std::int64_t t_ns);
  void guess_begins(const Client& client, std::int64_t now_ns);
  void see_guess(const Event& event, const Client& client);

  // What a piece of lower work would cost, and gain (budget.cpp).
  struct Higher { // a client above, at the moment of a decision
    const Client* client = nullptr;
    Forecast forecast;
    double calibration = 1;
    std::array<SlowdownBudget::Unforeseen, 2> unforeseen; // [1]: by lower work that takes turns with the client, at a cost
    double affected = 1;
    double covers_ns = 0;
    bool full = false; // the budget is
    double worth = 0;
    double delay_ns = 0; // the delay that is forecast of lower work on the device already
    double free_ns = 0;  // for how long lower work may have the device without delaying the client
    bool at_work = false;
    bool changes = false; // the device has to switch back to the client already
    bool stands = false; // nobody waits for the client's sake
    // In slices nothing overlaps: beside the client's kernels all of a forecast delay comes.
    double calibration_of(const Client& lower) const {
      return at_work && !client->runs_beside(lower) ? std::max(calibration, 1.0) : calibration;
    }
  };
  void look(std::int64_t now_ns, int lowest);
  void see(Higher& higher) const;
  std::span<const Higher> above() const { return std::span(above_).first(above_count_); }
  struct Longer { // by how much a piece may take longer than reckoned
    std::int64_t feared_ns = 0;  // as a rare one does, or as unknown ones of the client did lately
    std::int64_t longest_ns = 0; // as the longest did that was seen
  };
  Longer longer(const Client& client, const Launches& piece) const;
  struct Cost {
    Fill fill;
    std::int64_t there_ns = 0; // the switches
    std::int64_t back_ns = 0;
    bool opens = false; // the piece is the first after the higher client's own work (a visit)
    double share = 0;   // SlowdownBudget::Unforeseen
    double delay_ns = 0; // the forecast delay beyond Higher::delay_ns
    double expected_ns = 0; // delay_ns calibrated, with the surcharge, for all requests that feel it
    double all_ns = 0; // the forecast delay with Higher::delay_ns
    std::int64_t worst_ns = 0;
    double gain_ns = 0;
  };
  Cost cost(const Higher& higher, const Client& client, std::int64_t length_ns) const;
  // Reason::none: no client above has one. run_ns: of the run that begins with the piece.
  WaitReason objection(const Client& client, std::int64_t length_ns, const Longer& longer, std::int64_t run_ns = 0) const;
  WaitReason objection(const Higher& higher, const Client& client, std::int64_t length_ns, const Longer& longer, std::int64_t run_ns) const;
  double near_ns(const Higher& higher, const Client& client) const;
  bool waits_for_device(const Higher& higher, const Client& client, std::int64_t length_ns, const Cost& cost) const;
  bool may_be_long(const Client& client) const; // may its run?
  void spend(const Client& client, std::int64_t length_ns, std::int64_t served_ns);

  // What is in flight.
  struct Lower {
    std::int64_t end_ns = 0; // when lower work ends; where nobody knows, a lease from now
    WaitReason hold;               // why clients wait that stand behind it
  };
  Lower lower_work(std::int64_t now_ns) const;
  std::int64_t ahead_ns() const { return lower_.end_ns - now_ns_; }

  // Who goes (budget_choice.cpp).
  std::int64_t charged_ns(const Client& client, const Launches& granted) const override { return asked_ns(client, granted); }
  Launches granted(const Client& client) const override { return granted_[client.slot]; }
  Client* choose(std::int64_t now_ns) override;
  Extension extended(std::int64_t now_ns) override;
  Client* overstaying(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;
  WaitReason answer(const Client& client);
  WaitReason kept(const Client& client) const;
  void lengthen(const Client& client);
  bool may_extend(const Client& client) const;
  bool may_become_longer(const Client& client, const Launches& to) const;
  bool due(const Client& client, std::int64_t now_ns) const {
    const std::int64_t waited_ns = now_ns - client.waiting_since_ns;
    return waited_ns >= options().starvation_timeout_ns && waited_ns >= patience_ns(client, now_ns);
  }
  std::int64_t patience_ns(const Client& client, std::int64_t now_ns) const;
  const Client* stops(const Client& client, std::int64_t now_ns) const;
  const Client* keeps_all(const Client& client, std::int64_t now_ns) const { return any_keeper_ ? keeper(client, now_ns) : nullptr; }
  const Client* keeper(const Client& client, std::int64_t now_ns) const;
  std::int64_t length_ns(const Client& client) const;
  std::int64_t asked_ns(const Client& client, const Launches& granted) const {
    return granted.launches > 1 ? granted.work_ns : std::max(length_ns(client), client.cautious_ns);
  }

  // Whose turn it is: of a level's clients the one goes first that has had least of the device (Shares).
  bool goes_before(const Client& a, const Client& b) const;
  void see_running();
  const Client* running_with_less(const Client& client) const; // the client of its level for whose next kernel it has to wait

  // Copies (budget_copies.cpp).
  CopyEngines copies_that_matter(const Client& client) const override { return copies_.that_matter(client); }
  Client* choose_copy(std::int64_t now_ns) override;
  WaitReason copy_obstacle(const Client& client, std::int64_t now_ns) const;
  void copy_done(const Event& event);
  void grant_copy(const Copies::Asked& copy, std::uint32_t request, std::int64_t now_ns);

  // By slot: what is known of a client as a higher one (budgets_), and as a lower one.
  std::array<SlowdownBudget, kMaxClients> budgets_{};
  std::array<Audit, kMaxClients> audits_{}; // apart from budgets_, which every decision reads: an Audit is large
  ClientSet keepers_; // by slot, too: whose budget stops lower work, or lets it pause
  Suspects suspects_;
  bool any_keeper_ = false; // in one of the two
  struct Guess { // how long a client's kernels of unknown length may take
    std::int64_t length_ns = kUsualGuessNs;
    std::int64_t asked_ns = 0; // when such a kernel was granted; 0: none is in flight
    std::int64_t launched_ns = 0; // when it was launched; 0: it was not yet
    Fear fear;
  };
  std::array<Guess, kMaxClients> guesses_{};
  Unconfirmed unconfirmed_;
  Shares shares_;
  std::array<Launches, kMaxClients> granted_{}; // the launches about which answer() said that the client may go
  Copies copies_{clients(), options()};
  std::int64_t busy_until_ns_ = 0; // the device is, with its switches between clients
  struct { // the client whose work was launched or granted last: it has the device, or will have it
    ClientId id = 0;
    bool overlaps = false;
  } holder_;

  // At the moment of a decision.
  std::int64_t now_ns_ = 0;
  std::int64_t free_ns_ = 0; // when the device has done all work that is known to be on it
  Lower lower_;
  std::array<Higher, kMaxClients> above_{};
  std::size_t above_count_ = 0;
  std::array<const Client*, 10> running_{}; // by priority: of clients whose kernel runs and that do not ask, the one that has had least
};

} // namespace fikit::policy::budget
