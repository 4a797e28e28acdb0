// Which kernels of MPS clients are on the compute engine at the same time, where the device admits them by room.
//
// A kernel starts when its demand (occupancy.hpp) fits into what the running kernels leave. Kernels that run do not slow
// each other, except by `overlap_slowdown`. The first in line that does not fit holds up those behind: kernels start in
// the order in which they came to the head of their streams, a client below normal priority behind all normal ones. So
// kernels that fill the device alternate, and a small kernel waits for the end of such a kernel. On an H200 both were
// measured (docs/measured.md).
//
// Waves. A kernel keeps all its room from its start to its end, whatever its waves, except against a higher priority: if
// a normal kernel waits for room, kernels of clients below normal priority leave at the end of a wave. The rest of such
// a kernel's waves starts again when there is room. Kernels of one wave, and those in their last one, keep their room.
//
// Two simplifications. A kernel starts with all its blocks or not at all: on the H200 the blocks that found a place ran
// beside a small kernel, and the others followed. And a kernel gives no room back during its last wave.
#include <algorithm>
#include <cmath>

#include "device_model.hpp"

namespace emu {

// Does the stream's first op fit beside what runs?
bool DeviceModel::has_room(int stream) const {
  int64_t taken = 0;
  for_running([&](int id) { taken += head(s_.engines[id].stream).demand; });
  // Demands are rounded, each by up to half a part.
  return taken + head(stream).demand <= int64_t{kWholeDevice} + s_.running;
}

// May the stream's first op start now? It is the first in line.
bool DeviceModel::admit(int stream) {
  while (!has_room(stream)) {
    s_.refused = 1;
    if (yields_to_normal(s_.streams[stream].process) || !make_way()) return false;
  }
  const bool waited = s_.refused != 0 && head(stream).ready_ns < s_.time_ns;
  s_.refused = 0;
  if (!waited || s_.mps_switch_ns == 0 || s_.sharing != Sharing::mps) return true;
  s_.switch_end_ns = s_.time_ns + s_.mps_switch_ns;
  return false;
}

// A normal kernel waits for room: those below normal priority leave at the end of their waves. True: one left now.
bool DeviceModel::make_way() {
  bool left = false;
  for_running([&](int id) {
    Engine& engine = s_.engines[id];
    if (!yields_to_normal(s_.streams[engine.stream].process)) return;
    if (engine.held_until_ns < s_.time_ns) engine.held_until_ns = wave_end(engine);
    if (engine.held_until_ns != s_.time_ns) return;
    stop_account(id);
    Op& op = at(engine.stream, engine.seq);
    op.waves = static_cast<uint8_t>(std::max<int64_t>((op.left_ns + engine.block_ns / 2) / engine.block_ns, 1));
    clear(id);
    left = true;
  });
  return left;
}

// When the wave ends that the kernel is in, at its present rate; now where one has just ended; kNever: it is the last one.
int64_t DeviceModel::wave_end(const Engine& engine) const {
  if (engine.block_ns <= 0) return kNever;  // shorter than it has waves
  const int64_t left_ns = left_at(engine, s_.time_ns).up();
  if (left_ns % engine.block_ns == 0 && engine.started_ns < s_.time_ns) return s_.time_ns;
  const int64_t later_waves_ns = (left_ns - 1) / engine.block_ns * engine.block_ns;
  if (later_waves_ns <= 0) return kNever;
  const auto wave_ns = static_cast<double>(left_ns - later_waves_ns);
  const double needs_ns = wave_ns * static_cast<double>(kFullSpeed) / static_cast<double>(engine.rate);
  return s_.time_ns + std::max<int64_t>(std::llround(needs_ns), 1);
}

// Can a running kernel leave for one of this process before it ends?
bool DeviceModel::way_can_be_made(int process) const {
  bool can = false;
  for_running([&](int id) { can = can || yields_to_normal(s_.streams[s_.engines[id].stream].process); });
  return can && !yields_to_normal(process);
}

}  // namespace emu
