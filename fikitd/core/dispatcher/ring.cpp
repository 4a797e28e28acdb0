#include "ring.hpp"

namespace fikit::dispatcher {
namespace {

template <class T>
T load(const T& shared) { // another process may be writing: a relaxed load, never a plain read
  return __atomic_load_n(&shared, __ATOMIC_RELAXED);
}

} // namespace

bool Ring::next(const fikit_page& page, std::int64_t now_ns, Report& report) {
  const std::uint64_t head = page.ring_head.load(std::memory_order_acquire);
  if (head - tail_ > FIKIT_RING_ENTRIES) { // the writer has lapped the reader, or has falsified the head
    tail_ = head > FIKIT_RING_ENTRIES ? head - FIKIT_RING_ENTRIES : 0;
    lost_ = true;
  }
  for (unsigned skipped = 0; tail_ != head && skipped <= FIKIT_RING_ENTRIES; ++skipped) {
    const fikit_entry& entry = page.ring[tail_ % FIKIT_RING_ENTRIES];
    const std::uint64_t stamp = entry.stamp.load(std::memory_order_acquire);
    if (stamp == tail_ + 1) {
      report = {.t_ns = load(entry.t_ns),
                .slot = load(entry.slot),
                .kind = load(entry.kind),
                .value = load(entry.value),
                .before = load(entry.before)};
      std::atomic_thread_fence(std::memory_order_acquire);
      const bool whole = entry.stamp.load(std::memory_order_relaxed) == stamp;
      ++tail_;
      if (whole) return true;
    } else if (stamp > tail_ + 1) { // overwritten by a later lap
      ++tail_;
    } else { // claimed, not finished
      if (tail_ >= waiting_head_) {
        waiting_since_ns_ = now_ns;
        waiting_head_ = head;
      }
      if (now_ns - waiting_since_ns_ < patience_ns_) return false;
      ++tail_;
    }
    lost_ = true;
  }
  return false;
}

} // namespace fikit::dispatcher
