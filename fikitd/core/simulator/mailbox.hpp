// Notes that wait to be read: the oldest is read so long after it was sent. All of one mailbox take equally long, so they are
// due in the order in which they were sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "job.hpp"

namespace fikit::simulator {

class Mailbox {
 public:
  explicit Mailbox(std::int64_t delay_ns) : delay_ns_(delay_ns), ring_(kFirstSize) {}

  void send(const Note& note, std::int64_t now_ns) {
    if (tail_ - head_ == ring_.size()) grow();
    ring_[tail_++ % ring_.size()] = {now_ns + delay_ns_, note};
  }
  std::int64_t next_ns() const { return head_ == tail_ ? kNever : ring_[head_ % ring_.size()].due_ns; }
  bool empty() const { return head_ == tail_; }
  Note take() { return ring_[head_++ % ring_.size()].note; }

 private:
  struct Entry {
    std::int64_t due_ns = 0;
    Note note;
  };
  static constexpr std::size_t kFirstSize = 64; // a power of two, doubled when there is need

  void grow() {
    std::vector<Entry> larger(2 * ring_.size());
    for (std::size_t i = head_; i != tail_; ++i) larger[i % larger.size()] = ring_[i % ring_.size()];
    ring_ = std::move(larger);
  }

  std::int64_t delay_ns_;
  std::vector<Entry> ring_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

} // namespace fikit::simulator
