// A client's marks that the GPU has not written yet. Reports of marks come from an untrusted page, so their number, their order
// and the time that they are waited for are bounded.
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
  bool granted = false;        // value is the number of a granted request; else of a launch
  std::uint64_t value = 0;
  std::int64_t missing_ns = 0; // when it was last seen not to be reached
  std::int64_t until_ns = 0;   // from then on no client is held for it
};

class Marks {
 public:
  // Ignores a mark whose number is not newer than the last one's, or whose launch lies before that of the last one.
  void put(const Mark& mark);
  // Forgets the marks of launches up to this number: a synchronisation says that they are complete.
  void drained(std::uint64_t launches);
  bool any() const { return awaited_; } // is there one that is not overdue?
  // The oldest mark behind work without a grant that the last look found not reached; value 0: none.
  const Mark& standing() const { return standing_; }

  // Calls visit(mark, reached) for each, oldest first, and forgets those that are reached. An overdue mark is visited only once it is
  // reached: no client is held for it, and the moment at which it is reached still tells when long lower work before it ended.
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
