// Why a client waited: sums of time by reason, by the client that it waited for and, where that matters, by the waiting kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "journal.hpp"
#include "policy/base/reason.hpp"
#include "time_account.hpp"

namespace fikit::tracking {

struct WaitSum {
  policy::WaitReason hold;
  std::uint32_t slot = 0; // of the waiting kernel; 0: any
  bool named = true;      // false: the rest of this reason, without clients and kernels
  std::uint64_t count = 0;
  std::int64_t total_ns = 0;
  std::int64_t cost_ns = 0; // the part during which the client had no work on the device: what the wait cost of its elapsed time
};

// Each piece of a wait has the reason of the decision at its beginning. Before the first decision, and after the grant, the reason is
// the dispatcher's own time to react (Reason::reaction).
class WaitBook {
 public:
  // self: the client. Its waits also go into `journal` and `account`.
  WaitBook(policy::ClientId self, Journal& journal, TimeAccount& account) : self_(self), journal_(journal), account_(account) {}

  std::uint32_t slot() const { return slot_; } // of the newest request
  void posted(std::uint32_t slot, std::int64_t t_ns);             // a request waits at the gate from t_ns on
  void decided(const policy::WaitReason& hold, std::int64_t now_ns);    // the policy's reason from now on
  void granted(std::int64_t now_ns);                              // the request was granted, or the gate opened
  void left(std::int64_t now_ns);   // the request is gone by now; the launch's report may still tell when
  void passed(std::int64_t t_ns);   // the launch was made at t_ns
  // A launch on the device waited for length_ns behind lower work that was there already.
  void stood(policy::ClientId by, std::int64_t t_ns, std::int64_t length_ns);

  std::vector<WaitSum> sums(std::int64_t now_ns) const; // the current wait included
  std::optional<JournalEvent> going_on(std::int64_t now_ns) const; // the current wait, which is not in the journal yet

 private:
  // How many sums are kept by client and kernel; the rest is summed up by reason alone.
  static constexpr std::size_t kNamed = 96;

  std::int64_t until_ns(std::int64_t now_ns) const { return left_ns_ != 0 ? left_ns_ : now_ns; }
  JournalEvent event(std::int64_t until_ns) const;
  void put_down(std::int64_t until_ns);
  WaitSum& sum_of(const policy::WaitReason& hold, std::uint32_t slot);

  policy::ClientId self_;
  Journal& journal_;
  TimeAccount& account_;
  bool waiting_ = false;
  policy::WaitReason hold_;
  std::uint32_t slot_ = 0;
  std::int64_t since_ns_ = 0;
  std::int64_t left_ns_ = 0; // when the request left the gate; 0: it has not
  std::array<WaitSum, kNamed> named_{};
  std::size_t named_count_ = 0;
  std::array<WaitSum, policy::kReasonNames.size()> rest_{};
};

} // namespace fikit::tracking
