// What is done with a stream that another thread may destroy meanwhile: it is told by its id, and looked up with the
// session's lock held.
#include <algorithm>

#include "libcuda/driver/session.hpp"

namespace emu {

Queue* Session::queue_of(uint64_t id) const {
  const auto found = std::find_if(queues_.begin(), queues_.end(), [id](const auto& queue) { return queue->id == id; });
  return found == queues_.end() ? nullptr : found->get();
}

std::vector<StreamEnd> Session::ends(uint64_t context) {
  std::vector<StreamEnd> found;
  const std::lock_guard lock(mutex_);
  for (const auto& queue : queues_)
    if (queue->context == context) found.push_back({queue->id, queue->slot, queue->tail});
  return found;
}

void Session::enqueue_in(uint64_t id, Command command) {
  const auto find = [this, id] {
    Queue* queue = queue_of(id);
    return queue == nullptr || queue->closing ? nullptr : queue;
  };
  enqueue_where(find, std::move(command));
}

void Session::wait_for_stream(uint64_t id, const Health& health) {
  int slot = kNone;
  uint64_t end = 0;  // what another thread enqueues later is not waited for
  {
    const std::lock_guard lock(mutex_);
    if (const Queue* queue = queue_of(id)) {
      slot = queue->slot;
      end = queue->tail;
    }
  }
  if (slot == kNone || end == 0) return;
  const auto reached = [this, id, end] {
    const Queue* queue = queue_of(id);
    return queue == nullptr || queue->reaped >= end;
  };
  wait_until(slot, health, reached, [end] { return end - 1; });
}

}  // namespace emu
