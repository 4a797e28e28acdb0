// Why clients stand at the gate, as the last decision said. A reason is noted for a set of clients at once, so that a client costs
// nothing about which nobody asks.
#pragma once

#include <array>
#include <cstddef>

#include "client_set.hpp"
#include "reason.hpp"

namespace fikit::policy {

class WaitReasons {
 public:
  void clear() { count_ = kept_ = 0; }
  // Reasons that are noted from now on take the place of those that were noted since keep().
  void again() { count_ = kept_; }
  void keep() { kept_ = count_; }

  void say(const ClientSet& rows, const WaitReason& why) {
    if (!rows.any()) return;
    if (last_is(why)) words_[count_ - 1].rows = words_[count_ - 1].rows | rows;
    else if (count_ < words_.size()) words_[count_++] = {.rows = rows, .why = why};
  }
  void say(std::size_t row, const WaitReason& why) {
    if (last_is(why)) {
      words_[count_ - 1].rows.set(row, true);
    } else {
      ClientSet itself;
      itself.set(row, true);
      say(itself, why);
    }
  }
  // The client asks for something else than that about which its reason was noted.
  void forget(std::size_t row) {
    for (std::size_t word = 0; word < count_; ++word) words_[word].rows.set(row, false);
  }

  // The reason that was noted last counts.
  WaitReason of(std::size_t row) const {
    for (std::size_t word = count_; word-- > 0;)
      if (words_[word].rows.has(row)) return words_[word].why;
    return {};
  }
  // Calls seen(clients, why) so that it gets each of these clients once; with Reason::none those of which no reason was noted.
  template <class Seen>
  void each(ClientSet rows, Seen seen) const {
    for (std::size_t word = count_; word-- > 0 && rows.any();) {
      const ClientSet some = rows & words_[word].rows;
      if (!some.any()) continue;
      seen(some, words_[word].why);
      rows = rows.without(some);
    }
    if (rows.any()) seen(rows, WaitReason{});
  }

 private:
  bool last_is(const WaitReason& why) const { return count_ > kept_ && words_[count_ - 1].why == why; }

  struct Word {
    ClientSet rows;
    WaitReason why;
  };
  // A decision notes at most two reasons for a client, and one more for a client whose copy waits.
  std::array<Word, 3 * kMaxClients> words_{};
  std::size_t count_ = 0;
  std::size_t kept_ = 0; // the first words_, which are about copies
};

} // namespace fikit::policy
