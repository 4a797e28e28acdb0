#include "marks.hpp"

#include <algorithm>

namespace fikit::tracking {

void Marks::put(const Mark& mark) {
  const auto ahead = static_cast<std::int32_t>(mark.number - last_number_); // numbers wrap
  if (ahead <= 0 || (!mark.granted && mark.value < last_launch_)) return;
  last_number_ = mark.number;
  if (!mark.granted) last_launch_ = mark.value;
  if (count_ == marks_.size()) return; // more marks than the page has words for them: the client's report is false
  marks_[count_++] = mark;
  awaited_ = true;
}

void Marks::drained(std::uint64_t launches) {
  const auto over = [launches](const Mark& mark) { return !mark.granted && mark.value <= launches; };
  const auto end = std::remove_if(marks_.begin(), marks_.begin() + static_cast<std::ptrdiff_t>(count_), over);
  count_ = static_cast<std::size_t>(end - marks_.begin());
  awaited_ = awaited_ && count_ > 0;
}

} // namespace fikit::tracking
