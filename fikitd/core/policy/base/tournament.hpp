// Who is first of many whose keys change all the time: rows play in groups of eight, and the winners of the groups against each
// other. To set a key costs little unless it was the best of its group, and to ask for the best of a range little per group.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace fikit::policy {

struct Earliest {
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  static bool better(std::int64_t a, std::int64_t b) { return a < b; }
};
struct Latest {
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  static bool better(std::int64_t a, std::int64_t b) { return a > b; }
};

// Of rows 0 .. size() - 1, at most kMost; a row without a key has Order::kNone, which no other is worse than. looks: the groups
// that were read and written.
template <class Order, std::size_t kMost>
class Tournament {
 public:
  std::size_t size() const { return size_; }
  // So many rows, none of which has a key.
  void clear(std::size_t size) {
    size_ = size;
    groups_ = (size + kGroup - 1) / kGroup;
    keys_.fill(Order::kNone);
    for (std::size_t group = 0; group < kGroups; ++group) winners_[group] = winner_of(group);
    best_ = winners_[0];
  }
  void set(std::size_t row, std::int64_t key) {
    const std::int64_t before = std::exchange(keys_[row], key);
    if (before == key) return;
    ++looks_;
    const Winner now{.key = key, .row = row};
    Winner& winner = winners_[row / kGroup];
    if (now.beats(winner)) winner = now;
    else if (winner.row == row) winner = winner_of(row / kGroup);
    else return; // another one's, and it stays the better one
    if (winner.beats(best_)) best_ = winner;
    else if (best_.row == row) best_ = winner_of_all();
  }
  std::int64_t key(std::size_t row) const { return keys_[row]; }
  std::int64_t best() const { return best_.key; }
  // Of rows begin .. end - 1.
  std::int64_t best(std::size_t begin, std::size_t end) const {
    std::int64_t best = Order::kNone;
    while (begin < end) {
      ++looks_;
      const std::size_t next = std::min(end, (begin / kGroup + 1) * kGroup);
      const std::int64_t winner = winners_[begin / kGroup].key;
      if (Order::better(winner, best)) {
        if (next - begin == kGroup) best = winner;
        else for (; begin < next; ++begin) best = Order::better(keys_[begin], best) ? keys_[begin] : best;
      }
      begin = next;
    }
    return best;
  }
  // The first row that none is better than; size() if none has a key.
  std::size_t best_row() const { return best_.key == Order::kNone ? size_ : best_.row; }
  // The same of begin .. end - 1.
  std::size_t best_row(std::size_t begin, std::size_t end) const {
    if (const std::size_t row = best_row(); begin <= row && row < end) return row; // mostly
    const std::int64_t key = best(begin, end);
    return key == Order::kNone ? size_ : first(begin, key);
  }
  // The first row from `begin` on whose key is no worse than this one; size() if there is none.
  std::size_t first(std::size_t begin, std::int64_t key) const {
    for (std::size_t row = begin; row < size_; row = (row / kGroup + 1) * kGroup) {
      if (Order::better(key, winners_[row / kGroup].key)) continue;
      ++looks_;
      const std::size_t end = std::min(size_, (row / kGroup + 1) * kGroup);
      for (std::size_t each = row; each < end; ++each)
        if (!Order::better(key, keys_[each])) return each;
    }
    return size_;
  }

  std::uint64_t looks() const { return looks_; }

 private:
  static constexpr std::size_t kGroup = 8; // whose keys the processor reads at once
  static constexpr std::size_t kGroups = (kMost + kGroup - 1) / kGroup;
  // The first of those none is better than.
  struct Winner {
    std::int64_t key = Order::kNone;
    std::size_t row = 0;
    bool beats(const Winner& other) const { return Order::better(key, other.key) || (key == other.key && row < other.row); }
  };
  Winner winner_of(std::size_t group) const {
    Winner winner{.key = keys_[group * kGroup], .row = group * kGroup};
    for (std::size_t row = group * kGroup + 1; row < (group + 1) * kGroup; ++row) {
      const bool better = Order::better(keys_[row], winner.key); // no branch, which nobody could foresee
      winner.key = better ? keys_[row] : winner.key;
      winner.row = better ? row : winner.row;
    }
    return winner;
  }
  Winner winner_of_all() const {
    ++looks_;
    Winner winner = winners_[0];
    for (std::size_t group = 1; group < groups_; ++group) {
      const bool better = Order::better(winners_[group].key, winner.key);
      winner.key = better ? winners_[group].key : winner.key;
      winner.row = better ? winners_[group].row : winner.row;
    }
    return winner;
  }
  std::size_t size_ = 0;
  std::size_t groups_ = 0; // that have rows
  std::array<std::int64_t, kGroups * kGroup> keys_{};
  std::array<Winner, kGroups> winners_{}; // of each group
  Winner best_;                           // of all
  mutable std::uint64_t looks_ = 0;
};

} // namespace fikit::policy
