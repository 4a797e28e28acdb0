// Why those who stand at the gate stand there, as the last decision said: a word for many at once, so that whom nobody asks
// about costs nothing.
#pragma once

#include <array>
#include <cstddef>

#include "client_set.hpp"
#include "reason.hpp"

namespace fikit::policy {

class WaitReasons {
 public:
  void clear() { count_ = kept_ = 0; }
  // What is said from now on takes the place of what was said since keep().
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
  // It asks for something else than it was told of.
  void forget(std::size_t row) {
    for (std::size_t word = 0; word < count_; ++word) words_[word].rows.set(row, false);
  }

  // The newest word counts.
  WaitReason of(std::size_t row) const {
    for (std::size_t word = count_; word-- > 0;)
      if (words_[word].rows.has(row)) return words_[word].why;
    return {};
  }
  // seen(some of these, why) until each was seen once; those of whom nothing was said with Reason::none.
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
  // A choice says something of a client twice at most, and of one whose copy waits once more.
  std::array<Word, 3 * kMaxClients> words_{};
  std::size_t count_ = 0;
  std::size_t kept_ = 0; // of these: what was said of copies
};

} // namespace fikit::policy
