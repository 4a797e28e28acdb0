// Marks behind a client's work on the device that were put and not yet reached. What is known of them comes from an
// untrusted page, so they are bounded in number, in order and in time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "page.hpp"

namespace fikit::dispatcher {

struct Mark {
  std::uint32_t number = 0;
  bool granted = false;        // value is a request, else a launch_seq
  std::uint64_t value = 0;
  std::int64_t missing_ns = 0; // when it was last known not to be reached
  std::int64_t until_ns = 0;   // believed to be lost after this
};

class Marks {
 public:
  // A number that is not newer than the last, or a launch before the last one's, is not believed.
  void put(const Mark& mark);
  // Every launch up to this one is complete, whatever its mark says.
  void drained(std::uint64_t launches);
  bool any() const { return count_ > 0; }

  // Looks at each: visit(mark, reached), oldest first. Reached and lost ones are forgotten.
  template <class Visit>
  void look(std::int64_t now_ns, const Page& page, Visit visit) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const bool reached = page.reached(marks_[i].number);
      if (reached || now_ns < marks_[i].until_ns) visit(std::as_const(marks_[i]), reached);
      if (reached || now_ns >= marks_[i].until_ns) continue;
      marks_[i].missing_ns = now_ns;
      marks_[kept++] = marks_[i];
    }
    count_ = kept;
  }

 private:
  std::array<Mark, FIKIT_MARKS> marks_{};
  std::size_t count_ = 0;
  std::uint32_t last_number_ = 0;
  std::uint64_t last_launch_ = 0;
};

} // namespace fikit::dispatcher
