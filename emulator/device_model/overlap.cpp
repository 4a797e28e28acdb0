// How fast kernels run that are on the compute engine at the same time.
//
// Each has a demand, the share of the device that it takes at full speed (occupancy.hpp). While the sum is at most the
// device, all run at full speed; beyond it each gets a share in proportion to its demand (where MPS clients are admitted
// by the room that there is, admission.cpp, no sum is beyond it). While a kernel of another
// process runs beside it, a kernel takes `overlap_slowdown` times as long: what demand knows nothing of, such as memory
// bandwidth.
//
// MPS clients below normal priority get what normal ones leave, but not at once: the GPU's block scheduler places the
// pending blocks of higher priority first and pre-empts none that is resident (NVIDIA, CUDA Programming Guide, stream
// priorities: a hint "when work is scheduled", work that executes is not interrupted; MPS documentation,
// CUDA_MPS_CLIENT_PRIORITY). So when a normal kernel begins, a lower one keeps the places that its resident blocks have
// for as long as one of its blocks takes, competing as an equal. Blocks end at any time within that span: half of the
// places on average, which is what an equal gets against a kernel that wants them all. A lower kernel of one wave has no
// block to come and keeps its places to its end.
//
// Rates are whole parts of kFullSpeed and what is left is counted in the same parts of a ns, so a change of speed rounds
// nothing: however often neighbours come and go, a kernel does its work exactly. It ends at the next whole ns.
#include <algorithm>

#include "device_model.hpp"

namespace emu {
namespace {

using Parts = unsigned __int128;  // of a ns, kFullSpeed to one

constexpr int kPartBits = 32;
static_assert(kFullSpeed == uint64_t{1} << kPartBits);

}  // namespace

// What a running op still needs at t_ns, as long as its rate does not change.
DeviceModel::Left DeviceModel::left_at(const Engine& engine, int64_t t_ns) const {
  const Op& op = s_.streams[engine.stream].ring[engine.seq % kRingOps];
  const int64_t elapsed_ns = t_ns - engine.since_ns;
  if (engine.rate == kFullSpeed) {
    if (elapsed_ns <= op.left_ns) return {op.left_ns - elapsed_ns, op.left_part};
    return {0, 0};
  }
  const Parts left = (static_cast<Parts>(op.left_ns) << kPartBits) + op.left_part;
  const Parts done = static_cast<Parts>(elapsed_ns) * engine.rate;
  const Parts rest = left > done ? left - done : 0;
  return {static_cast<int64_t>(rest >> kPartBits), static_cast<uint32_t>(rest)};
}

// Puts what the op has done since into its own account and its process's.
void DeviceModel::settle(Engine& engine, int64_t until_ns) {
  Op& op = at(engine.stream, engine.seq);
  const Left left = left_at(engine, until_ns);
  ProcessState& process = s_.processes[s_.streams[engine.stream].process];
  Parts done = (static_cast<Parts>(op.left_ns - left.ns) << kPartBits) + op.left_part - left.part;
  if (op.demand != kWholeDevice) done = done * static_cast<Parts>(op.demand) / kWholeDevice;
  done += process.work_part;
  process.work_ns += static_cast<int64_t>(done >> kPartBits);
  process.work_part = static_cast<uint32_t>(done);
  op.left_ns = left.ns;
  op.left_part = left.part;
  engine.since_ns = until_ns;
}

void DeviceModel::set_rate(Engine& engine, uint64_t rate) {
  if (rate == engine.rate) return;
  settle(engine, s_.time_ns);
  const Op& op = head(engine.stream);
  engine.rate = rate;
  if (rate == 0) {
    engine.end_ns = kNever;
  } else if (rate == kFullSpeed) {
    engine.end_ns = s_.time_ns + Left{op.left_ns, op.left_part}.up();
  } else {
    const Parts left = (static_cast<Parts>(op.left_ns) << kPartBits) + op.left_part;
    const Parts needs_ns = (left + rate - 1) / rate;
    constexpr Parts kFar = kNever / 2;
    engine.end_ns = s_.time_ns + static_cast<int64_t>(std::min(needs_ns, kFar));
  }
}

// A kernel of normal priority begins: what lower ones have on the device now, their blocks keep for a while.
void DeviceModel::hold_places() {
  for_running([&](int id) {
    Engine& engine = s_.engines[id];
    if (engine.places == 0 || !yields_to_normal(s_.streams[engine.stream].process)) return;
    engine.held = engine.places;
    engine.held_until_ns = s_.time_ns + engine.block_ns;
  });
}

// The share of the device that normal kernels, and what is held against them, leave.
int32_t DeviceModel::room_behind_normal() const {
  int64_t normal = 0;
  int64_t held = 0;
  for_running([&](int id) {
    const Engine& engine = s_.engines[id];
    const bool yields = yields_to_normal(s_.streams[engine.stream].process);
    if (yields && engine.held_until_ns > s_.time_ns) held += engine.held;
    if (!yields) normal += head(engine.stream).demand;
  });
  // Places are held against normal kernels: once these are over, low ones are each other's equals.
  return normal == 0 ? kWholeDevice : static_cast<int32_t>(std::max<int64_t>(kWholeDevice - normal - held, 0));
}

// Gives every running kernel its rate.
void DeviceModel::share_out() {
  if (s_.sharing == Sharing::merged) return;
  s_.crowded = s_.running > 1 ? 1 : 0;
  if (s_.running == 1) {
    for_running([&](int id) {
      set_rate(s_.engines[id], kFullSpeed);
      s_.engines[id].places = head(s_.engines[id].stream).demand;
    });
    return;
  }
  bool normal = false;
  for_running([&](int id) { normal = normal || !yields_to_normal(s_.streams[s_.engines[id].stream].process); });
  const bool admitted = by_admission() && s_.holder == kMpsGroup;  // what runs fits, but for the rounding of demands
  const auto held = [&](const Engine& engine) { return normal && !admitted && engine.held_until_ns > s_.time_ns; };
  int64_t before = 0;  // what is served first
  int64_t behind = 0;  // what gets the rest
  for_running([&](int id) {
    const Engine& engine = s_.engines[id];
    const int64_t demand = head(engine.stream).demand;
    const bool yields = yields_to_normal(s_.streams[engine.stream].process);
    if (yields && held(engine)) before += engine.held;
    else (yields ? behind : before) += demand;
  });
  const auto rate_of = [](int64_t room, int64_t demand) {
    return demand <= room ? kFullSpeed : (static_cast<uint64_t>(room) << kPartBits) / static_cast<uint64_t>(demand);
  };
  const uint64_t first = admitted ? kFullSpeed : rate_of(kWholeDevice, before);
  const uint64_t rest = admitted ? kFullSpeed : rate_of(std::max<int64_t>(kWholeDevice - before, 0), behind);
  const auto undisturbed = [&](const Engine& engine) {
    if (!yields_to_normal(s_.streams[engine.stream].process)) return first;
    if (!held(engine)) return rest;
    return first * static_cast<uint64_t>(engine.held) / static_cast<uint64_t>(head(engine.stream).demand);
  };
  // Several processes have blocks on the device.
  int owner = kNone;
  bool beside = false;
  for_running([&](int id) {
    const int process = s_.streams[s_.engines[id].stream].process;
    if (undisturbed(s_.engines[id]) == 0) return;
    beside = beside || (owner != kNone && owner != process);
    owner = process;
  });
  const double slowdown = beside ? s_.overlap_slowdown : 1;
  for_running([&](int id) {
    Engine& engine = s_.engines[id];
    const uint64_t rate = undisturbed(engine);
    engine.places = static_cast<int32_t>((static_cast<uint64_t>(head(engine.stream).demand) * rate) >> kPartBits);
    set_rate(engine, slowdown == 1 ? rate : static_cast<uint64_t>(static_cast<double>(rate) / slowdown));
  });
}

std::vector<double> DeviceModel::demands(int process) const {
  std::vector<double> found;
  for_running([&](int id) {
    const int stream = s_.engines[id].stream;
    if (s_.streams[stream].process == process) found.push_back(static_cast<double>(head(stream).demand) / kWholeDevice);
  });
  return found;
}

// When the next held places can become free.
int64_t DeviceModel::hold_event() const {
  int64_t next = kNever;
  for_running([&](int id) {
    const int64_t until_ns = s_.engines[id].held_until_ns;
    if (until_ns > s_.time_ns) next = std::min(next, until_ns);
  });
  return next;
}

// When a running op can end at the earliest. Its rate can only rise when something happens to its neighbours; by
// admission a kernel that comes can make them leave.
int64_t DeviceModel::earliest_of_running(const Engine& engine) const {
  if (engine.rate == kFullSpeed) return engine.end_ns;
  const int64_t change_ns = by_admission() ? s_.time_ns : std::max(s_.quiet_until_ns, s_.time_ns);
  return engine.end_ns <= change_ns ? engine.end_ns : change_ns + left_at(engine, change_ns).up();
}

}  // namespace emu
