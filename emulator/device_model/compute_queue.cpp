// Whose kernels the compute engine runs: round robin between processes, in slices or kernel by kernel, at a cost for
// each change; side by side within a process; or all processes as one.
#include <algorithm>
#include <tuple>

#include "device_model.hpp"

namespace emu {

// True when a kernel of the process (kNone: of any) is on the compute engine.
bool DeviceModel::computing(int process) const {
  for (int id = kCompute; id < engines(); ++id) {
    const int stream = s_.engines[id].stream;
    if (stream != kNone && (process == kNone || s_.streams[stream].process == process)) return true;
  }
  return false;
}

int DeviceModel::free_slot() const {
  for (int id = kCompute; id < engines(); ++id) {
    if (s_.engines[id].stream == kNone) return id;
  }
  return kNone;
}

// Another process than the holder has something to run.
bool DeviceModel::contended(const Survey& seen) const {
  const uint64_t holder = s_.holder == kNone ? 0 : uint64_t{1} << s_.holder;
  return s_.merged == 0 && (seen.waiting & ~holder) != 0;
}

// The stream whose first op is to run next, kNone when there is none. Processes in turn from `first` on, only the
// holder while its kernels run; within a process by stream priority, then arrival.
int DeviceModel::next_for_compute(int first, bool running) const {
  using Key = std::tuple<int, int, uint64_t>;
  Key best_key{};
  int best = kNone;
  for_busy_streams([&](int i) {
    const Op& op = head(i);
    if (!needs_engine(op.kind) || engine_of(op.kind) != kCompute || !ready(op)) return;
    for (int id = kCompute; id < engines(); ++id) {
      if (s_.engines[id].stream == i) return;
    }
    const StreamState& stream = s_.streams[i];
    if (running && s_.merged == 0 && stream.process != s_.holder) return;
    const int turn = s_.merged != 0 ? 0 : (stream.process - first + kMaxProcesses) % kMaxProcesses;
    const Key key{turn, stream.priority, op.arrival};
    if (best == kNone || key < best_key) std::tie(best, best_key) = std::tuple(i, key);
  });
  return best;
}

void DeviceModel::assign_compute(const Survey& seen, bool rotate) {
  if (seen.waiting == 0 || s_.time_ns < s_.switch_end_ns) return;
  for (int slot = free_slot(); slot != kNone; slot = free_slot()) {
    const bool running = computing(kNone);
    // Run to completion: nobody joins the running kernels while another process waits for their end.
    if (running && s_.slice_ns == 0 && contended(seen)) return;
    // After a hand-over its reason comes first, or two processes would hand the engine back and forth for nothing.
    const bool keeps_turn = (s_.slice_ns > 0 && !rotate) || (s_.switch_ns > 0 && s_.time_ns == s_.switch_end_ns);
    const int first = keeps_turn ? std::max(s_.holder, 0) : s_.holder + 1;
    const int best = next_for_compute(first, running);
    if (best == kNone) return;
    const int process = s_.streams[best].process;
    const bool handed_over = process != s_.holder && s_.holder != kNone && s_.merged == 0;
    if (rotate || process != s_.holder) s_.slice_start_ns = s_.time_ns;
    s_.holder = process;
    if (handed_over && s_.switch_ns > 0) {
      s_.switch_end_ns = s_.time_ns + s_.switch_ns;
      s_.slice_start_ns = s_.switch_end_ns;
      return;
    }
    start(slot, best);
    rotate = false;
  }
}

void DeviceModel::preempt() {
  for (int id = kCompute; id < engines(); ++id) {
    Engine& engine = s_.engines[id];
    if (engine.stream == kNone) continue;
    stop_account(id);
    at(engine.stream, engine.seq).left_ns = engine.end_ns - s_.time_ns;
    commit_point();
    engine.stream = kNone;
  }
}

// The end of the holder's slice. Slices renew themselves while nobody waits for it.
int64_t DeviceModel::slice_end() const {
  if (s_.slice_ns <= 0) return kNever;
  const int64_t slices = (s_.time_ns - s_.slice_start_ns) / s_.slice_ns + 1;
  return s_.slice_start_ns + slices * s_.slice_ns;
}

int64_t DeviceModel::slice_event(const Survey& seen) const {
  return s_.slice_ns > 0 && contended(seen) && computing(kNone) ? slice_end() : kNever;
}

// When a kernel of this stream can start, as far as the kernels that run now are concerned.
int64_t DeviceModel::earliest_compute(int index) const {
  const int64_t begin = std::max(s_.time_ns, s_.switch_end_ns);
  if (!computing(kNone)) return begin;
  int64_t first_end = kNever;
  int64_t last_end = 0;
  for (int id = kCompute; id < engines(); ++id) {
    if (s_.engines[id].stream == kNone) continue;
    first_end = std::min(first_end, s_.engines[id].end_ns);
    last_end = std::max(last_end, s_.engines[id].end_ns);
  }
  if (s_.merged == 0 && s_.streams[index].process != s_.holder) return std::max(begin, std::min(last_end, slice_end()));
  return free_slot() == kNone ? std::max(begin, first_end) : begin;
}

}  // namespace emu
