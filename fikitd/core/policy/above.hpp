// What those above allow at one moment: each of them has a forecast, and a budget, for the delay that lower work would be.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "account.hpp"
#include "clients.hpp"
#include "events.hpp"

namespace fikit::policy {

class Above {
 public:
  // accounts: of the clients, by slot.
  Above(const ClientTable& clients, std::span<Account> accounts, const Options& options)
      : clients_(clients), accounts_(accounts), options_(options) {}

  // From now on it is about this moment, and about who waits and others of the priority `lowest` and above. ahead_ns: of lower
  // work is in flight. again: since the last look, at the same moment, some was granted, which makes those longer who are waited
  // for, but teaches nothing of those at rest.
  void look(std::int64_t now_ns, int lowest, std::int64_t ahead_ns, bool again);
  std::int64_t now_ns() const { return now_ns_; }
  // What is granted now stands in line: then a delay grows with a kernel's length, and no more slowly than that, so what is
  // refused to a kernel is refused to all longer ones.
  bool in_line() const { return begin_ns_ == free_ns_; }

  // Why somebody above it cannot afford work of this length by this client; Reason::none when they can.
  Hold objection(const Client& client, std::int64_t length_ns) const;
  // There is lower work in flight that is not nearly over.
  bool behind() const { return behind_; }
  // Are all those above it between two waits, or at ease? Then none of their launches ends a run.
  bool at_rest(const Client& client) const;
  // May it stand in line behind that?
  bool let_go_ahead(const Client& client, std::int64_t length_ns) const;

  // Is this length refused to it, and not by so little that rounding decides? Then in line all that are longer are, too.
  bool refuses(const Client& client, std::int64_t length_ns) const;

  // The same of many at once (above_limits.cpp), by each of those above: of all lengths asked for, what it refuses to all below
  // it, whoever they are. What is left may be refused to each of them.
  struct Limits {
    Lengths granted;                  // what is shorter or longer is refused:
    std::int64_t fits_ns = kNever;    // what is longer than this, because of a max_delay
    std::int64_t covered_ns = kNever; // else what is longer than this, because less is left of the budget
    Hold why;                         // and the others
  };
  std::size_t count() const { return count_; } // the highest first
  int priority(std::size_t number) const { return all_[number].client->priority; }
  Limits limits(std::size_t number, const Lengths& asked) const;
  // And what is longer may not stand behind the lower work in flight.
  std::int64_t longest_ahead_ns(std::size_t number, const Lengths& asked) const;

  // Work of this length is granted to it.
  void spend(const Client& client, std::int64_t length_ns);

 private:
  struct Higher {
    const Client* client = nullptr;
    Account* account = nullptr;
    Account::Delays delays; // expected
    double delay_ns = 0;    // without any more lower work
    Account::Means means;
    bool at_work = false;
    bool uncertain = false; // how far it is
    std::int64_t lets_go_ns = 0; // work of this length, whatever is forecast
    mutable std::int64_t longest_ahead_ns = kUnknown; // of what may stand behind other lower work; found when it is asked for
  };
  std::span<const Higher> all() const { return std::span(all_).first(count_); }
  void find(int lowest);
  void see(Higher& higher, bool again) const;
  // Moments if everything on the device takes so many times as long as is reckoned (Tuning::late).
  std::int64_t late_ns(std::int64_t t_ns) const {
    return now_ns_ + static_cast<std::int64_t>(options_.tuning.late * static_cast<double>(t_ns - now_ns_));
  }
  // Of one: why the delay, less so much, cannot be afforded.
  Hold objection(const Higher& higher, std::int64_t length_ns, double less_ns) const;
  std::int64_t longest_ahead_ns(const Higher& higher) const;
  std::int64_t find_longest_ahead_ns(const Higher& higher) const;
  bool lets_go_ahead(const Higher& higher, std::int64_t length_ns, double less_ns) const;
  // Whatever is forecast of it, this is not refused. Of longer ones a single one may cost more than all that went before.
  bool lets_all_go(const Higher& higher, std::int64_t length_ns) const {
    return length_ns <= higher.lets_go_ns;
  }
  static constexpr double kRoundingNs = 2; // moments are whole ns: what delays that differ by less may be mistaken for
  using Line = Account::Means::Line;
  double share_of(const Account::Means& means) const;
  Lengths under(const Line& line, const Higher& higher, Lengths asked, bool late) const;
  Remaining::At cost(const Higher& higher, std::int64_t length_ns, bool late) const;
  std::int64_t shortest_under(const Line& line, const Higher& higher, const Lengths& asked, bool late) const;
  std::int64_t longest_covered_ns(const Higher& higher, const Lengths& asked, bool late) const;
  std::int64_t longest_under(const Line& line, const Higher& higher, const Lengths& asked, bool late) const;

  const ClientTable& clients_;
  std::span<Account> accounts_;
  const Options& options_;
  std::int64_t now_ns_ = 0;
  std::int64_t free_ns_ = 0;  // of all that is known to be on the device
  std::int64_t begin_ns_ = 0; // of lower work that is granted now
  bool behind_ = false;
  bool deep_ = false; // and more of that than run_ahead_ns
  std::array<Higher, kMaxClients> all_{};
  std::size_t count_ = 0;
};

} // namespace fikit::policy
