// What those who wait were told last: so that many are told the same at once, and only those are written to who were told
// something else.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "reason.hpp"
#include "rows.hpp"

namespace fikit::policy {

class Told {
 public:
  void forget() { count_ = 0; }
  void forget(std::size_t row) {
    for (Entry& entry : entries()) entry.rows.set(row, false);
  }
  // These are told so now. Those of them who were told something else, or nothing that is remembered.
  Rows tell(Rows rows, const Hold& hold) {
    Entry& told = entry_of(hold);
    rows = rows.without(told.rows);
    if (!rows.any()) return rows;
    for (Entry& entry : entries()) entry.rows = entry.rows.without(rows);
    told.rows = told.rows | rows;
    return rows;
  }
  // Is it remembered of all of these?
  bool knows(const Rows& rows) const {
    Rows known;
    for (const Entry& entry : entries()) known = known | entry.rows;
    return !rows.without(known).any();
  }
  // What some of these were told.
  template <class Seen>
  void each(const Rows& rows, Seen seen) const {
    for (const Entry& entry : entries())
      if ((entry.rows & rows).any()) seen(entry.hold);
  }

 private:
  struct Entry {
    Hold hold;
    Rows rows;
  };
  std::span<Entry> entries() { return {entries_.data(), count_}; }
  std::span<const Entry> entries() const { return {entries_.data(), count_}; }
  Entry& entry_of(const Hold& hold) {
    const auto found = std::ranges::find(entries(), hold, &Entry::hold);
    if (found != entries().end()) return *found;
    const auto spare = std::ranges::find_if(entries(), [](const Entry& entry) { return !entry.rows.any(); });
    if (spare != entries().end()) return *spare = {.hold = hold, .rows = {}};
    if (count_ == entries_.size()) forget(); // they are written to again
    return entries_[count_++] = {.hold = hold, .rows = {}};
  }
  std::array<Entry, 16> entries_{};
  std::size_t count_ = 0;
};

} // namespace fikit::policy
