// What a client's waiting is put down to: sums of time by reason, blamed client and, where it matters, its kernel.
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
  std::uint32_t slot = 0; // of the kernel that was held; 0: any
  bool named = true;      // false: the rest of this reason, by whom and of what kernels is not known any more
  std::uint64_t count = 0;
  std::int64_t total_ns = 0;
  std::int64_t cost_ns = 0; // of that, without work of the client's on the device: elapsed time
};

// Time belongs to what the decision at its beginning said. Before the first decision, and after the grant, it is the
// dispatcher's own (Reason::reaction).
class WaitBook {
 public:
  // self: the client; its waits go into its journal too, and into the account of its time.
  WaitBook(policy::ClientId self, Journal& journal, TimeAccount& account) : self_(self), journal_(journal), account_(account) {}

  std::uint32_t slot() const { return slot_; } // of the newest request
  void posted(std::uint32_t slot, std::int64_t t_ns);             // a request stands at the gate since t_ns
  void decided(const policy::WaitReason& hold, std::int64_t now_ns);    // while it stands there
  void granted(std::int64_t now_ns);                              // or the gate opened
  void left(std::int64_t now_ns);   // it is gone by now; when exactly, the launch's report may still tell
  void passed(std::int64_t t_ns);   // it was launched
  // A launch stands behind lower work that is on the device already.
  void stood(policy::ClientId by, std::int64_t t_ns, std::int64_t length_ns);

  std::vector<WaitSum> sums(std::int64_t now_ns) const; // what is still going on included
  std::optional<JournalEvent> going_on(std::int64_t now_ns) const; // that, which is not in the journal yet

 private:
  // A client can have many kernels and meet many others; what does not fit is summed up by reason.
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
  std::int64_t left_ns_ = 0; // 0: it has not
  std::array<WaitSum, kNamed> named_{};
  std::size_t named_count_ = 0;
  std::array<WaitSum, policy::kReasonNames.size()> rest_{};
};

} // namespace fikit::tracking
