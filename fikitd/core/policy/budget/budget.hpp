// The policy `budget`: lower work goes while what it costs those above is worth what it gains. See README.md.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "copies.hpp"
#include "forecast.hpp"
#include "policy/base/level_policy.hpp"
#include "slowdown_budget.hpp"

namespace fikit::policy::budget {

class Budget final : public LevelPolicy {
 public:
  using LevelPolicy::LevelPolicy;
  bool looks_ahead() const override { return true; }

 private:
  // The GPU, as far as is known: until it has been measured a change between clients is taken for a dear one.
  static constexpr double kAssumedSwitch = 0.1; // of a turn
  bool overlaps() const { return device().sharing == Sharing::overlap; }
  std::int64_t switch_ns() const { return overlaps() ? 0 : device().switch_ns >= 0 ? device().switch_ns : std::llround(kAssumedSwitch * options().tuning.turn_ns); }

  // What happened (budget.cpp).
  void learn(const LevelPolicy& higher) override;
  void noted(const Event& event, const Client& client) override;
  void noted_given(const Given& given, const Client& client, std::int64_t now_ns) override;
  void noted_done_below(const Event& event) override { copy_done(event); }
  void overran(const Client& client, std::int64_t ns);
  void takes_device(const Client& client, std::int64_t t_ns, std::int64_t length_ns);
  void see_doubts();
  void see_rest(std::int64_t t_ns);
  void see_guess(const Event& event, const Client& client);

  // What a piece of lower work would cost, and gain (budget.cpp).
  struct Higher { // one of those above, at the moment of a decision
    const Client* client = nullptr;
    Forecast forecast;
    double calibration = 1;
    double surcharge = 0;
    bool doubtful = false;
    double affected = 1;
    double covers_ns = 0;
    double worth = 0;
    double delay_ns = 0; // forecast of what is on the device already
    double free_ns = 0;  // for so long lower work may have the device for nothing
    bool at_work = false;
    bool changes = false; // the device has to change back to it already
  };
  void look(std::int64_t now_ns, int lowest);
  void see(Higher& higher) const;
  std::span<const Higher> above() const { return std::span(above_).first(above_count_); }
  struct Cost {
    double delay_ns = 0; // more than is forecast already
    double expected_ns = 0; // by all that are affected, after what forecasts have come to
    double all_ns = 0;
    std::int64_t worst_ns = 0;
    double gain_ns = 0;
  };
  Cost cost(const Higher& higher, const Client& client, std::int64_t length_ns) const;
  WaitReason objection(const Client& client, std::int64_t length_ns) const; // Reason::none: nobody above has one
  WaitReason objection(const Higher& higher, const Client& client, std::int64_t length_ns) const;
  bool waits_for_device(const Higher& higher, std::int64_t length_ns, const Cost& cost) const;
  bool foreseeable(const Client& client) const; // hardly anything comes unforeseen to those above it
  bool at_rest(const Client& client) const; // are all those above?
  bool may_be_long(const Client& client) const { return (overlaps() || at_rest(client)) && foreseeable(client); } // its run
  void spend(const Client& client, std::int64_t length_ns, std::int64_t served_ns);

  // What is in flight.
  struct Lower {
    std::int64_t end_ns = 0; // of lower work, as far as is known; a lease from now when it is not
    WaitReason hold;               // of those that stand behind it
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
  void lengthen(const Client& client);
  bool may_extend(const Client& client) const;
  bool may_become_longer(const Client& client, const Launches& to) const;
  bool due(const Client& client, std::int64_t now_ns) const {
    const std::int64_t waited_ns = now_ns - client.waiting_since_ns;
    return waited_ns >= options().starvation_timeout_ns && waited_ns >= patience_ns(client, now_ns);
  }
  std::int64_t patience_ns(const Client& client, std::int64_t now_ns) const;
  std::int64_t length_ns(const Client& client) const;
  std::int64_t asked_ns(const Client& client, const Launches& granted) const {
    return granted.launches > 1 ? granted.work_ns : std::max(length_ns(client), client.cautious_ns);
  }

  // Whose turn it is: of a level, who has had least of the device goes first.
  bool goes_before(const Client& a, const Client& b) const;
  void see_running();
  const Client* running_with_less(const Client& client) const; // of its equals: whose next kernel it has to wait for
  void comes_back(const Client& client);
  void served(const Client& client, std::int64_t ns);

  // Copies (budget_copies.cpp).
  CopyEngines copies_that_matter(const Client& client) const override { return copies_.that_matter(client); }
  Client* choose_copy(std::int64_t now_ns) override;
  WaitReason copy_obstacle(const Client& client, std::int64_t now_ns) const;
  void copy_done(const Event& event);
  void grant_copy(const Copies::Asked& copy, std::uint32_t request, std::int64_t now_ns);

  // By slot: of a client as a higher one, and as a lower one.
  std::array<SlowdownBudget, kMaxClients> budgets_{};
  struct Guess { // of a client's kernels of unknown length
    std::int64_t length_ns = kUsualGuessNs;
    std::int64_t asked_ns = 0; // when one of these was granted; 0: none is in flight
  };
  std::array<Guess, kMaxClients> guesses_{};
  std::array<double, kMaxClients> served_ns_{};
  std::array<double, 10> level_ns_{}; // by priority: what the last one served had been served
  std::array<Launches, kMaxClients> granted_{}; // that it goes was the answer about these
  Copies copies_{clients(), options()};
  std::int64_t busy_until_ns_ = 0; // the device, with its changes between clients
  ClientId holder_ = 0; // whose work was the last to be launched or granted: the device is its, or will be

  // At the moment of a decision.
  std::int64_t now_ns_ = 0;
  std::int64_t free_ns_ = 0; // the device has done all that is known to be on it
  Lower lower_;
  std::array<Higher, kMaxClients> above_{};
  std::size_t above_count_ = 0;
  std::array<const Client*, 10> running_{}; // by priority: of those whose kernel runs, and who do not ask, who has had least
};

} // namespace fikit::policy::budget
