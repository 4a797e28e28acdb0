// What those above allow at one moment: each of them has a forecast, and a budget, for the delay that lower work would be.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "account.hpp"
#include "clients.hpp"
#include "policy.hpp"
#include "refusals.hpp"

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
  // May it stand in line behind that?
  bool let_go_ahead(const Client& client, std::int64_t length_ns) const;

  // The first two of many: what is refused to all of these lengths; where they stand in line, to all that are not shorter.
  Refusals::Answer refusal(std::int64_t shortest_ns, std::int64_t longest_ns) const;
  Refusals::Answer ahead_refusal(std::int64_t shortest_ns, std::int64_t longest_ns) const;
  // Answers by class of lengths, asked once for each look.
  Refusals& refusals() { return refusals_; }
  Refusals& ahead_refusals() { return ahead_refusals_; }

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
    std::int64_t longest_ahead_ns = kNever; // of what may stand behind other lower work
  };
  std::span<const Higher> all() const { return std::span(all_).first(count_); }
  void find(int lowest);
  void see(Higher& higher, bool again) const;
  double delay_ns(const Higher& higher, std::int64_t length_ns) const {
    return higher.delays.until_ns(begin_ns_ + length_ns) - higher.delay_ns;
  }
  // The same if everything on the device takes so many times as long as is reckoned (Tuning::late).
  double late_delay_ns(const Higher& higher, std::int64_t length_ns) const;
  std::int64_t late_ns(std::int64_t t_ns) const {
    return now_ns_ + static_cast<std::int64_t>(options_.tuning.late * static_cast<double>(t_ns - now_ns_));
  }
  // Of one: why the delay of the shortest of these kernels, less so much, cannot be afforded by the means for the longest.
  Hold objection(const Higher& higher, std::int64_t shortest_ns, std::int64_t longest_ns, double less_ns) const;
  std::int64_t longest_ahead_ns(const Higher& higher) const;
  bool lets_go_ahead(const Higher& higher, std::int64_t shortest_ns, std::int64_t longest_ns, double less_ns) const;

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
  Refusals refusals_;
  Refusals ahead_refusals_;
};

} // namespace fikit::policy
