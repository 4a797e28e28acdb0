// Events: points in a stream with the model's time.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "context.hpp"
#include "shared_bytes.hpp"

namespace emu {

// Outlives the event's handle while a record of it is still queued. That of an interprocess event lies in memory which
// all its processes map.
struct EventState {
  std::atomic<uint64_t> records{0};    // how often it was recorded
  std::atomic<uint64_t> completed{0};  // the newest record that the device has reached
  std::atomic<int64_t> time_ns{0};     // when it did
  int slot = kNone;                    // where the newest record waits
  uint64_t seq = 0;
  std::atomic<int> recorder{0};  // interprocess: the process of the newest record, without which it never completes
  std::atomic<uint64_t> recorder_start{0};
  bool pending() const { return completed.load() < records.load(); }
  void complete(uint64_t record, int64_t end_ns);
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

struct Event : Object {
  static constexpr ObjectKind kKind = ObjectKind::event;
  Event(Context& c, unsigned f) : Object(kKind), device(c.device), session(c.session()), health(c.health()), flags(f) {}
  bool interprocess() const { return shared.has_value(); }
  Device& device;
  Session& session;
  const Health health;  // of its context
  const unsigned flags;
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  std::optional<SharedBytes> shared;  // interprocess: where `state` lies
  std::shared_ptr<Capture> capture;  // set while its newest record is part of a capture
  std::vector<GraphNode*> capture_nodes;
};

// A view of the state in these bytes, which a first one makes. Keeps them mapped.
std::shared_ptr<EventState> shared_state(const SharedBytes& bytes, bool first);
// Later work of the stream starts after the event's newest record.
void wait_for_event(Stream& stream, Event& event);

}  // namespace emu
