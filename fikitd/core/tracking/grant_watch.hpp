// How long a client's grants took at least, by marks and drains. What a client says of its kernels' lengths is checked by that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fikit_protocol.h"
#include "switching/device_use.hpp"
#include "types/fear.hpp"

namespace fikit::tracking {

class GrantWatch {
 public:
  // A launch on a grant. duration_ns: predicted (negative: unknown); longest_ns: the longest that is known of such a kernel; end_ns: when
  // the grant's work ends, as reckoned with all other work on the device; works_ns: all work that was launched on the device so far.
  struct Launch {
    std::uint32_t request = 0;
    std::uint32_t slot = 0;
    std::int64_t duration_ns = 0;
    std::int64_t longest_ns = 0;
    std::int64_t end_ns = 0;
    std::int64_t works_ns = 0;
  };
  void launched(const Launch& launch);
  // The grant's work ended between two moments. Of other grants on other streams that says nothing.
  void done(std::uint32_t request, const Moment& end, std::int64_t works_ns);
  // All work ended then.
  void all_done(const Moment& end, std::int64_t works_ns);
  void confirmed() { unconfirmed_ = 0; } // a kernel was timed
  void forget() { count_ = 0, unconfirmed_ = 0; }

  // So many grants without any word of an end: nobody knows any more how long the client's kernels take.
  bool silent() const { return unconfirmed_ >= kSilent; }
  // What a kernel of this slot is feared to take, and the longest that was seen of it; 0: nothing but what is predicted. A kernel that has
  // hardly run yet is taken for one like the client's others.
  std::int64_t feared_ns(std::uint32_t slot, std::int64_t now_ns) const { return fear_of(slot).feared_ns(now_ns); }
  std::int64_t longest_ns(std::uint32_t slot, std::int64_t now_ns) const { return fear_of(slot).longest_ns(now_ns); }
  // The least that the slot's kernels took lately, each one of several; 0: some took no longer than predicted.
  std::int64_t least_ns(std::uint32_t slot) const {
    return slot < seen_.size() && seen_[slot].row >= kInARow ? seen_[slot].least_ns : 0;
  }

 private:
  static constexpr std::uint32_t kSilent = 16; // beside a job above with long kernels, 8 honest ones may stand in line
  static constexpr std::uint32_t kInARow = 3; // that many say what the next one will be like
  static constexpr std::int64_t kUnclearNs = 2'000'000; // a turn of another client and its switches, or a late look, explain so much
  static constexpr std::size_t kKept = 64; // grants
  static constexpr std::size_t kSlots = 8; // of a grant

  struct Grant {
    std::uint32_t request = 0;
    std::uint32_t launches = 0;
    std::int64_t length_ns = 0;
    std::int64_t longer_ns = 0; // by how much one of its kernels is known to have taken longer
    std::int64_t end_ns = 0;
    std::int64_t works_ns = 0;
    bool known = true; // all lengths are
    std::size_t slot_count = 0;
    std::array<std::uint16_t, kSlots> slots{};
  };
  struct Seen { // of a slot
    Fear fear;
    bool surely = false;      // the grant that took long was of this kernel alone
    std::uint32_t clean = 0;  // grants since then that took no longer than reckoned
    std::uint32_t ended = 0;  // grants whose end was seen, up to kInARow
    std::uint32_t row = 0;    // of these the newest that took longer, up to kInARow
    std::int64_t least_ns = 0;
  };

  const Fear& fear_of(std::uint32_t slot) const {
    return slot >= seen_.size() || seen_[slot].ended < kInARow ? fear_ : seen_[slot].fear;
  }
  std::int64_t unexplained_ns(const Grant& grant, const Moment& end, std::int64_t works_ns) const;
  void ended(const Grant& grant, std::int64_t longer_ns, std::int64_t now_ns);

  std::array<Grant, kKept> grants_{}; // oldest first
  std::size_t count_ = 0;
  std::uint32_t unconfirmed_ = 0;
  std::int64_t before_ns_ = policy::kLongAgo; // when an end was seen last
  std::vector<Seen> seen_; // by slot, as far as slots were used
  Fear fear_;              // of the client's kernels that have hardly run
};

} // namespace fikit::tracking
