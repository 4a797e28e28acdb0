// What happens when an op fails: its context dies with everything that was queued in it, as after an illegal address or
// a trap on a real device. Other contexts and processes go on.
#include <atomic>

#include "device_model.hpp"

namespace emu {

template <typename Dies>
void DeviceModel::kill_streams(int error, Dies dies) {
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

void DeviceModel::lose() {
  s_.lost = kDeviceLost;
  kill_streams(kDeviceLost, [](const StreamState&) { return true; });
}

}  // namespace emu
