// Events: points in a stream with the model's time.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "context.hpp"

namespace emu {

// Outlives the event's handle while a record of it is still queued.
struct EventState {
  std::atomic<uint64_t> records{0};    // how often it was recorded
  std::atomic<uint64_t> completed{0};  // the newest record that the device has reached
  std::atomic<int64_t> time_ns{0};     // when it did
  int slot = kNone;                    // where the newest record waits
  uint64_t seq = 0;
  bool pending() const { return completed.load() < records.load(); }
};

struct Event : Object {
  static constexpr ObjectKind kKind = ObjectKind::event;
  Event(Context& c, unsigned f) : Object(kKind), session(c.session()), health(c.health()), flags(f) {}
  Session& session;
  const Health health;  // of its context
  const unsigned flags;
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  std::shared_ptr<Capture> capture;  // set while its newest record is part of a capture
  std::vector<GraphNode*> capture_nodes;
};

// Later work of the stream starts after the event's newest record.
void wait_for_event(Stream& stream, Event& event);

}  // namespace emu
