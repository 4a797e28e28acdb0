// What happens when an op fails: its context dies with everything that was queued in it, as after an illegal address or
// a trap on a real device. Other contexts and processes go on.
#include <atomic>

#include "device_model.hpp"

namespace emu {

// Nobody will end the ops that are left in the stream.
void DeviceModel::drop_records(int index) {
  if (trace_ == nullptr) return;
  const StreamState& stream = s_.streams[index];
  for (uint64_t seq = stream.done; seq < stream.tail; ++seq) {
    const TraceRecord* record = trace_->find(op(index, seq).record);
    if (record != nullptr && record->outcome == Outcome::pending)
      trace_->ended(record->number, s_.time_ns, Outcome::dropped);
  }
}

template <typename Dies>
void DeviceModel::kill_streams(int error, Dies dies) {
  disturb();
  for (int id = 0; id < kEngines; ++id) {
    Engine& engine = s_.engines[id];
    if (engine.stream == kNone || !dies(s_.streams[engine.stream])) continue;
    stop_account(id);
    engine.stream = kNone;
  }
  for (int i = 0; i < kMaxStreams; ++i) {
    StreamState& stream = s_.streams[i];
    if (stream.process == kNone || !dies(stream)) continue;
    if (stream.error == 0) stream.dropped = stream.done;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // error is the store that makes it true
    stream.error = error;
    drop_records(i);
    s_.busy[i / 64] &= ~(uint64_t{1} << (i % 64));
    stream.done = stream.tail;
  }
}

void DeviceModel::kill_context(int process, int32_t context, int error) {
  if (error == kDeviceLost) {
    lose();
    return;
  }
  kill_streams(error, [=](const StreamState& s) { return s.process == process && s.context == context; });
}

void DeviceModel::abandon(int process, int32_t context) {
  kill_streams(kContextDestroyed, [=](const StreamState& s) { return s.process == process && s.context == context; });
  advance(s_.time_ns);
}

void DeviceModel::lose() {
  s_.lost = kDeviceLost;
  kill_streams(kDeviceLost, [](const StreamState&) { return true; });
}

}  // namespace emu
