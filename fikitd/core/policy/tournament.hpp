// Who is first of many whose keys change all the time: a complete binary tree, in which each node keeps the better key of its two
// halves. To set a key, or to ask for the best of a range, costs a few looks per level of the tree.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace fikit::policy {

struct Earliest {
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  static bool better(std::int64_t a, std::int64_t b) { return a < b; }
};
struct Latest {
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  static bool better(std::int64_t a, std::int64_t b) { return a > b; }
};

// Of rows 0 .. size() - 1, at most kMost; a row without a key has Order::kNone, which no other is worse than. looks: the nodes
// that were read and written.
template <class Order, std::size_t kMost>
class Tournament {
 public:
  std::size_t size() const { return size_; }
  // So many rows, none of which has a key.
  void clear(std::size_t size) {
    size_ = size;
    leaves_ = std::bit_ceil(size > 0 ? size : 1);
    nodes_.fill(Order::kNone);
  }
  void set(std::size_t row, std::int64_t key) {
    std::size_t node = leaves_ + row;
    if (nodes_[node] == key) return;
    nodes_[node] = key;
    while ((node /= 2) > 0) {
      ++looks_;
      const std::int64_t left = nodes_[2 * node];
      const std::int64_t right = nodes_[2 * node + 1];
      const std::int64_t best = Order::better(right, left) ? right : left;
      if (nodes_[node] == best) return;
      nodes_[node] = best;
    }
  }
  std::int64_t key(std::size_t row) const { return nodes_[leaves_ + row]; }
  std::int64_t best() const { return nodes_[1]; }
  // Of rows begin .. end - 1.
  std::int64_t best(std::size_t begin, std::size_t end) const {
    std::int64_t best = Order::kNone;
    const auto see = [&](std::size_t node) {
      if (Order::better(nodes_[node], best)) best = nodes_[node];
    };
    for (begin += leaves_, end += leaves_; begin < end; begin /= 2, end /= 2) {
      ++looks_;
      if (begin % 2 == 1) see(begin++);
      if (end % 2 == 1) see(--end);
    }
    return best;
  }
  // The first row of begin .. end - 1 that none of them is better than; size() if none has a key.
  std::size_t best_row(std::size_t begin, std::size_t end) const {
    std::size_t left = 0; // nodes; 0: none
    std::size_t right = 0;
    for (begin += leaves_, end += leaves_; begin < end; begin /= 2, end /= 2) {
      ++looks_;
      if (begin % 2 == 1) left = Order::better(nodes_[begin], nodes_[left]) ? begin : left, ++begin;
      if (end % 2 == 1) --end, right = Order::better(nodes_[right], nodes_[end]) ? right : end;
    }
    std::size_t node = Order::better(nodes_[right], nodes_[left]) ? right : left;
    const std::int64_t best = nodes_[node];
    if (node == 0 || best == Order::kNone) return size_;
    while (node < leaves_) {
      ++looks_;
      node *= 2;
      if (nodes_[node] != best) ++node;
    }
    return node - leaves_;
  }
  // The first row from `begin` on whose key is no worse than this one; size() if there is none.
  std::size_t first(std::size_t begin, std::int64_t key) const {
    if (begin >= size_) return size_;
    std::size_t node = begin == 0 ? 1 : leaves_ + begin;
    while (Order::better(key, nodes_[node])) { // not below this node: the next one to its right
      ++looks_;
      while (node % 2 == 1) node /= 2;
      if (node == 0) return size_;
      ++node;
    }
    while (node < leaves_) {
      ++looks_;
      node *= 2;
      if (Order::better(key, nodes_[node])) ++node;
    }
    const std::size_t row = node - leaves_;
    return row < size_ ? row : size_; // where no key is asked for, rows beyond the last have none either
  }

  std::uint64_t looks() const { return looks_; }

 private:
  std::size_t size_ = 0;
  std::size_t leaves_ = 1;
  std::array<std::int64_t, 2 * std::bit_ceil(kMost)> nodes_{}; // 0: no key; 1: the root; those of rows from leaves_ on
  mutable std::uint64_t looks_ = 0;
};

} // namespace fikit::policy
