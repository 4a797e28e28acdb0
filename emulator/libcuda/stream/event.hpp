// Events: points in a stream with the model's time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "libcuda/context/context.hpp"
#include "libcuda/driver/shared_bytes.hpp"

namespace emu {

// Outlives the event's handle while a record of it is still queued. That of an interprocess event lies in memory which
// all its processes map.
struct EventState {
  std::atomic<uint64_t> records{0};    // how often it was recorded
  std::atomic<uint64_t> completed{0};  // the newest record that the device has reached
  std::atomic<int64_t> time_ns{0};     // when it did
  int slot = kNone;                    // where the newest record waits
  uint64_t seq = 0;
  bool interprocess = false;     // lies in shared memory
  std::atomic<int> recorder{0};  // interprocess: the process of the newest record, without which it never completes
  std::atomic<uint64_t> recorder_start{0};
  bool pending() const { return completed.load() < records.load(); }
  void complete(uint64_t record, int64_t end_ns);
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// What recording an event and waiting for it need: a graph's nodes hold one, too.
struct EventTarget {
  EventTarget(Context& c, bool t) : session(c.session()), health(c.health()), timed(t) {}
  bool interprocess() const { return state->interprocess; }
  Session& session;
  const Health health;  // of its context
  const bool timed;
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

struct Event : Object, EventTarget {
  static constexpr ObjectKind kKind = ObjectKind::event;
  Event(Context& c, unsigned f) : Object(kKind), EventTarget(c, (f & CU_EVENT_DISABLE_TIMING) == 0), device(c.device), flags(f) {}
  Device& device;
  const unsigned flags;
  std::optional<SharedBytes> shared;  // interprocess: where `state` lies
  std::shared_ptr<Capture> capture;   // set while its newest record is part of a capture
  std::vector<GraphNode*> capture_nodes;
};

// A view of the state in these bytes, which a first one makes. Keeps them mapped.
std::shared_ptr<EventState> shared_state(const SharedBytes& bytes, bool first);
// On a stream that is not captured. They return the number of the op that they enqueued.
uint64_t record_now(const EventTarget& event, Stream& stream);
std::optional<uint64_t> wait_now(const EventTarget& event, Stream& stream);

}  // namespace emu
