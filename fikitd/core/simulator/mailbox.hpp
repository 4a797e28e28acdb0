// Notes that wait to be read: the oldest is read so long after it was sent. They are due in the order in which they were sent:
// what is in the way of one is in the way of those behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "note.hpp"
#include "reactions.hpp"

namespace fikit::simulator {

class Mailbox {
 public:
  explicit Mailbox(Reaction delay) : delay_(std::move(delay)), ring_(kFirstSize) {}

  void send(const Note& note, std::int64_t now_ns) {
    if (tail_ - head_ == ring_.size()) grow();
    const Entry* last = empty() ? nullptr : &ring_[(tail_ - 1) % ring_.size()];
    const bool together = last != nullptr && last->sent_ns == now_ns && last->note.job == note.job; // who reads one reads the other
    std::int64_t due_ns = together ? last->due_ns : now_ns + delay_.next_ns();
    if (last != nullptr) due_ns = std::max(due_ns, last->due_ns);
    ring_[tail_++ % ring_.size()] = {due_ns, now_ns, note};
  }
  std::int64_t next_ns() const { return head_ == tail_ ? kNever : ring_[head_ % ring_.size()].due_ns; }
  bool empty() const { return head_ == tail_; }
  Note take() { return ring_[head_++ % ring_.size()].note; }

 private:
  struct Entry {
    std::int64_t due_ns = 0;
    std::int64_t sent_ns = 0;
    Note note;
  };
  static constexpr std::size_t kFirstSize = 64; // a power of two, doubled when there is need

  void grow() {
    std::vector<Entry> larger(2 * ring_.size());
    for (std::size_t i = head_; i != tail_; ++i) larger[i % larger.size()] = ring_[i % ring_.size()];
    ring_ = std::move(larger);
  }

  Reaction delay_;
  std::vector<Entry> ring_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

} // namespace fikit::simulator
