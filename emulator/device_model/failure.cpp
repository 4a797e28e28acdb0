// What happens when an op fails: its context dies with everything that was queued in it, as after an illegal address or
// a trap on a real device. Other contexts and processes go on, but MPS clients all die of the fault of one.
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
    const int stream = s_.engines[id].stream;
    if (stream == kNone || !dies(s_.streams[stream])) continue;
    stop_account(id);
    clear(id);
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
  if (is_client(process) && s_.sharing != Sharing::merged) {
    s_.mps_fault = error;
    commit_point();
    kill_clients();
    return;
  }
  kill_streams(error, [=](const StreamState& s) { return s.process == process && s.context == context; });
}

// A fatal fault of one MPS client ends the contexts of all, each with the fault's code.
void DeviceModel::kill_clients() {
  kill_streams(s_.mps_fault, [this](const StreamState& s) { return is_client(s.process) && s.error == 0; });
}

void DeviceModel::fail_process(int process, int error) {
  s_.processes[process].failed = error;
  commit_point();
  kill_streams(error, [=](const StreamState& s) { return s.process == process && s.error == 0; });
  advance(s_.time_ns);
}

// A caller died while it killed contexts: what belongs to them follows.
void DeviceModel::finish_killing() {
  if (s_.lost != 0) lose();
  if (s_.mps_fault != 0) kill_clients();
  for (int i = 0; i < kMaxProcesses; ++i) {
    const int error = s_.processes[i].pid != 0 ? s_.processes[i].failed : 0;
    if (error != 0) kill_streams(error, [=](const StreamState& s) { return s.process == i && s.error == 0; });
  }
  for (const StreamState& stream : s_.streams) {
    if (stream.process == kNone || stream.error == 0 || stream.error == kDeviceLost) continue;
    kill_streams(stream.error, [&](const StreamState& s) {
      return s.process == stream.process && s.context == stream.context && (s.error == 0 || &s == &stream);
    });
  }
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
