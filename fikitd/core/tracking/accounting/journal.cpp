#include "journal.hpp"

#include <bit>

namespace fikit::tracking {

Journal::Journal(std::size_t events) {
  if (events == 0) return;
  const std::size_t room = std::bit_ceil(events);
  events_ = std::make_unique_for_overwrite<JournalEvent[]>(room);
  mask_ = room - 1;
}

std::vector<JournalEvent> Journal::events() const {
  std::vector<JournalEvent> copy;
  if (events_ == nullptr) return copy;
  copy.reserve(count_ - lost());
  for (std::uint64_t i = lost(); i < count_; ++i) copy.push_back(events_[i & mask_]);
  return copy;
}

} // namespace fikit::tracking
