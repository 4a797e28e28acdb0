#include "marks.hpp"

namespace fikit::dispatcher {

void Marks::put(const Mark& mark) {
  const auto ahead = static_cast<std::int32_t>(mark.number - last_number_); // numbers wrap
  if (ahead <= 0 || (!mark.granted && mark.value < last_launch_)) return;
  last_number_ = mark.number;
  if (!mark.granted) last_launch_ = mark.value;
  if (count_ == marks_.size()) return; // the client gives a word of the page to two marks: it lies
  marks_[count_++] = mark;
}

} // namespace fikit::dispatcher
