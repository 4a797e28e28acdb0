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
//  - A request that has waited for ageing_ns goes next, whatever it costs; below a client with a max_delay, and while what
//    it was cost before is not paid, only after guarded_ageing times as long.
#pragma once

#include <array>
#include <span>

#include "account.hpp"
#include "policy.hpp"
#include "refusals.hpp"

namespace fikit::policy {

class Budget final : public Policy {
 public:
  using Policy::Policy;
  bool looks_ahead() const override { return true; }

 private:
  // A client as a lower one.
  struct Share {
    double served_ns = 0;           // of the device, since it came; never far behind its equals
    std::int64_t guess_ns = 100'000; // length of its kernels of unknown length
    bool whole_run = false;          // what was chosen for it
    std::int64_t asked_ns = 0;      // when one of these was granted; 0: none is in flight
  };

  void noted(const Event& event, const Client& client) override;
  Client* choose(std::int64_t now_ns) override;
  std::uint32_t granted_launches(const Client& client) const override;
  Client* extended(std::int64_t now_ns) override;
  Client* overstaying(std::int64_t now_ns) override;
  CopyEngines copies_that_matter(const Client& client) const override;
  Client* choose_copy(std::int64_t now_ns) override;
  std::int64_t next_change_ns(std::int64_t now_ns) const override;

  void overran(const Client& client, std::int64_t ns);
  std::int64_t length_ns(const Client& client) const;
  std::int64_t cautious_ns(const Client& client) const; // which is asked about
  // After how long a request goes next. Who has been cost more than there was to spend is paid back before.
  struct Ageing {
    std::int64_t ns = 0;
    std::int64_t guarded_ns = 0; // below a client with a max_delay, or whose budget is overdrawn
    int guard = 10;              // the highest priority of those
    bool paid_seen = false;      // the overdrawn are among them
    std::int64_t of(const Client& client) const { return client.priority > guard ? guarded_ns : ns; }
  };
  Ageing ageing() const;
  bool aged(const Client& client, std::int64_t now_ns, Ageing& ages) const;
  void see_overdrawn(Ageing& ages) const;
  // When the lower work in flight is over, as far as is known (a lease from now when it is not), and whose it is.
  struct Lower {
    std::int64_t end_ns = 0;
    Hold hold;
    bool granted = false; // some of it was granted, and is not known to be complete
  };
  Lower lower_work(std::int64_t now_ns) const;
  void see_doubts();
  void see_doubts(const Client& client);
  struct Above {
    const Client* client = nullptr;
    const Account* account = nullptr;
    Account::Delays delays; // expected
    double delay_ns = 0;    // without any more lower work
    Account::Means means;
    bool at_work = false;
    bool uncertain = false; // how far it is
  };
  // What one choice is made from, the same for all that wait.
  struct View {
    std::int64_t now_ns = 0;
    std::int64_t free_ns = 0;     // of all that is known to be on the device
    std::int64_t begin_ns = 0;    // of lower work that is granted now
    // It stands in line: then a delay grows with a kernel's length, and no more slowly than that, so what is refused to a
    // kernel is refused to all longer ones.
    bool in_line() const { return begin_ns == free_ns; }
    std::span<const Above> above; // who outranks somebody that waits
  };
  View view(std::int64_t now_ns, int lowest, bool again = false);
  double marginal_delay_ns(const Above& higher, std::int64_t length_ns, const View& view) const {
    return higher.delays.until_ns(view.begin_ns + length_ns) - higher.delay_ns;
  }
  // The same if everything on the device takes so many times as long as is reckoned (Tuning::late).
  double late_delay_ns(const Above& higher, std::int64_t length_ns, const View& view) const;
  std::int64_t late_ns(std::int64_t t_ns, const View& view) const {
    return view.now_ns + static_cast<std::int64_t>(options().tuning.late * static_cast<double>(t_ns - view.now_ns));
  }
  bool goes_before(const Client& a, const Client& b) const;
  bool may_extend(const Client& client) const;
  // Nobody below this priority may stand in line behind lower work that is not nearly over; 10: everybody may.
  int nothing_ahead_below(const View& view) const;
  // May it stand in line behind more than run_ahead_ns of lower work?
  std::int64_t deepest_ns() const; // none behind more than this
  bool may_go_deep(const Client& client, std::int64_t length_ns, const View& view) const;
  bool lets_go_deep(const Above& above, std::int64_t shortest_ns, std::int64_t longest_ns, double less_ns, const View& view) const;
  // By level: of those whose kernel runs and whose next one cannot be granted yet, who has had least; nullptr: there is none.
  using Running = std::array<const Client*, 10>;
  Running running() const;
  // Has it had so much more than one of those that it has to wait for that one's next kernel?
  bool goes_after(const Client& client, const Client* running) const;
  // Why the delay of the shortest of these kernels, less so much, cannot be afforded by a higher client now, by the means for
  // the longest; Reason::none when it can be.
  Hold objection(const Above& above, std::int64_t shortest_ns, std::int64_t longest_ns, double less_ns, const View& view) const;
  // Of a crowd. What is refused to all of these lengths; where they stand in line, to all that are not shorter.
  Refusals::Answer refusal_of(std::int64_t shortest_ns, std::int64_t longest_ns, const View& view) const;
  Refusals::Answer deep_refusal_of(std::int64_t shortest_ns, std::int64_t longest_ns, const View& view) const;
  Hold refused_by_class(const Client& client, std::int64_t length_ns, const View& view);
  // The same of this client's kernel, and of all above it; by_class: what its class is refused comes first.
  Hold obstacle(const Client& client, std::int64_t length_ns, const View& view, bool by_class);
  std::int64_t behind_until_ns(ClientId id, std::int64_t now_ns) const;
  void spend(const Client& client, std::int64_t length_ns, std::int64_t served_ns, const View& view);
  // budget_choice.cpp
  // What one choice is made from, by level and for all.
  struct Choice {
    View seen;
    Running equals{};
    std::int64_t ahead_ns = 0;
    int nothing_below = 10; // of the priorities: more than near_ns of lower work is in flight, and one above may be back before its end
    bool deep = false;      // more than run_ahead_ns is
    bool by_class = false;  // lengths are asked about first
    const Client* asked = nullptr; // before that, and what it was answered holds then too
    Hold asked_hold{};
  };
  Rows all_aged(std::int64_t now_ns);
  Hold answer(Client& client, const Choice& choice);
  Hold refused(Client& client, bool aged, const Choice& choice);
  Client* first_of_few(const Choice& choice);
  Client* goes(Client* client, const View& seen);
  void see_running();
  Client* first_of_all(Choice& choice);
  Client* first_of_crowd(const Choice& choice);
  // Of those in classes that are refused, all; said(rows, why) of each class, as far as it is refused to them.
  template <class Ask, class Said>
  Rows refused(const ByLength& lengths, Refusals& refusals, const View& view, Ask ask, Said said);
  Rows refused_together(const Rows& aged, const Choice& choice);
  Rows not_deep_together(const Rows& left, const Choice& choice);
  Rows alike(const Client& client, const Choice& choice) const;
  Rows hold_alike(const Client& client, const Hold& why, const Rows& level, const Rows& aged, const Choice& choice);
  Client* first_of_level(Rows level, const Rows& aged, const Choice& choice);
  void rows_moved() { line_known_ = false; }
  void put_in_line(const Client& client);
  void know_line();
  Client* first_in_line(int priority);
  std::size_t least_of(const Rows& rows) const;
  Rows hold_later(const Client& running, const Rows& rows);
  void see_served(const Client& client) {
    double& most_ns = most_ns_[static_cast<std::size_t>(client.priority)];
    most_ns = std::max(most_ns, shares_[client.slot].served_ns);
  }
  std::int64_t next_due_ns(std::int64_t now_ns) const;
  // budget_copies.cpp
  std::int64_t copy_end_ns(const Client& client, std::int64_t now_ns) const;
  double copy_delay_ns(const Client& higher, Engine engine, std::int64_t end_ns, std::int64_t now_ns) const;
  Hold copy_obstacle(const Client& client, std::int64_t now_ns) const;
  void copied(const Event& event, const Client& client);
  void copy_done(const Event& event);

  // By slot.
  std::array<Account, kMaxClients> accounts_{};
  std::array<Share, kMaxClients> shares_{};
  std::array<bool, kMaxClients> doubtful_{}; // accounts, as seen at their clients' last events
  std::array<Above, kMaxClients> above_{}; // room for View::above
  Client* chosen_ = nullptr; // by the choice before this one, in the same decision
  Running equals_{};         // as the last choice saw them
  Refusals refusals_;      // of one choice
  Refusals deep_refusals_; // the same
  Lower lower_;       // as the last choice saw it
  Ageing ages_;       // the same
  static constexpr std::size_t kCrowd = 8;
  bool crowd_ = false; // the same: so many wait that classes of lengths are asked about first
  // Those who wait by what they were served, and others that have waited; by row.
  Tournament<Earliest, kMaxClients> line_;
  std::array<double, 10> most_ns_{}; // by priority: nobody who is there has been served more
  bool line_known_ = false; // false: rows have moved
  std::array<std::array<Copying, kCopyEngines>, kMaxClients> copying_{}; // of a client as a higher one, by slot
  struct LowCopy { // the newest that was granted
    std::int64_t granted_ns = 0;
    std::int64_t end_ns = 0; // as far as is reckoned, with those before it; a lease from its grant at most
    std::int64_t over_ns = 0; // by then: as its client said, or a lease from its grant
    ClientId client = 0;
    std::uint32_t request = 0;
    int priority = 0;
  };
  std::array<LowCopy, kCopyEngines> low_copies_{}; // by engine
  std::array<double, 10> level_ns_{}; // by priority: what the last one served had been served
};

} // namespace fikit::policy
