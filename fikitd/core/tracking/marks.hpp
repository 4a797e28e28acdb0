// Marks behind a client's work on the device that were put and not yet reached. What is known of them comes from an
// untrusted page, so they are bounded in number, in order and in time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "client_page.hpp"
#include "policy/base/progress.hpp"

namespace fikit::tracking {

struct Mark {
  std::uint32_t number = 0;
  bool granted = false;        // value is a request, else a launch_seq
  std::uint64_t value = 0;
  std::int64_t missing_ns = 0; // when it was last known not to be reached
  std::int64_t until_ns = 0;   // nobody waits for it any longer than this
};

class Marks {
 public:
  // A number that is not newer than the last, or a launch before the last one's, is not believed.
  void put(const Mark& mark);
  // Every launch up to this one is complete, whatever its mark says.
  void drained(std::uint64_t launches);
  bool any() const { return awaited_; } // that somebody waits for
  // The oldest behind work that did not ask that was not reached at the last look; value 0: there was none.
  const Mark& standing() const { return standing_; }

  // Looks at each: visit(mark, reached), oldest first. Reached ones are forgotten. One that is overdue holds nobody up, so
  // it is not visited before it is reached: long lower work may stand before it, and then it says when that was over.
  template <class Visit>
  void look(std::int64_t now_ns, const ClientPage& page, Visit visit) {
    std::size_t kept = 0;
    awaited_ = false;
    standing_ = {};
    for (std::size_t i = 0; i < count_; ++i) {
      Mark& mark = marks_[i];
      const bool reached = page.reached(mark.number);
      const bool overdue = now_ns >= mark.until_ns;
      if (reached || !overdue) visit(std::as_const(mark), reached);
      if (reached) continue;
      awaited_ |= !overdue;
      mark.missing_ns = now_ns;
      if (!mark.granted && standing_.value == 0) standing_ = mark;
      marks_[kept++] = mark;
    }
    count_ = kept;
  }

 private:
  std::array<Mark, FIKIT_MARKS> marks_{};
  std::size_t count_ = 0;
  bool awaited_ = false;
  Mark standing_;
  std::uint32_t last_number_ = 0;
  std::uint64_t last_launch_ = 0;
};

} // namespace fikit::tracking
