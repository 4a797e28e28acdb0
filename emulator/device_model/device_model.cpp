#include "device_model.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace emu {
namespace {

int32_t demand_of(double share) {
  return std::clamp(static_cast<int32_t>(std::lround(share * kWholeDevice)), 1, kWholeDevice);
}

}  // namespace

void DeviceModel::initialise(DeviceState& state, const DeviceParameters& parameters) {
  // The memory is zero already (fresh shared memory, value-initialised object): touching the rings would cost real
  // memory.
  static_cast<DeviceParameters&>(state) = parameters;
  state.holder = kNone;
  for (Engine& engine : state.engines) engine.stream = kNone;
  for (StreamState& stream : state.streams) stream.process = kNone;
  state.managed.oldest = state.managed.newest = kNone;
}

int DeviceModel::attach(int32_t pid, uint64_t pid_start, int64_t now_ns, const Membership& membership) {
  for (int i = 0; i < kMaxProcesses; ++i) {
    // The same process once more: it called exec() since, and nothing of its work is left.
    if (s_.processes[i].pid == pid) retire(i);
  }
  for (int i = 0; i < kMaxProcesses; ++i) {
    ProcessState& slot = s_.processes[i];
    if (slot.pid != 0) continue;
    slot = ProcessState{};
    slot.pid_start = pid_start;
    slot.last_ns = now_ns;
    slot.mps = membership.mps || s_.sharing != Sharing::slices ? 1 : 0;
    slot.priority = membership.priority;
    slot.server = membership.server;
    slot.slice_ns = std::llround(static_cast<double>(s_.slice_ns) * membership.weight);
    const uint64_t bit = uint64_t{1} << i;
    s_.clients = slot.mps != 0 ? s_.clients | bit : s_.clients & ~bit;
    commit_point();
    slot.pid = pid;
    return i;
  }
  return kNone;
}

void DeviceModel::retire(int process) {
  ProcessState& slot = s_.processes[process];
  disturb();
  for (int id = 0; id < kEngines; ++id) {
    const int stream = s_.engines[id].stream;
    if (stream == kNone || s_.streams[stream].process != process) continue;
    stop_account(id);
    clear(id);
  }
  for (int i = 0; i < kMaxStreams; ++i) {
    if (s_.streams[i].process == process) close_stream(i);
  }
  forget_managed(process);
  // A caller killed right after the copy leaves the slot taken; the next retire() then writes the same entry again.
  const uint64_t last = s_.retired == 0 ? 0 : s_.retired - 1;
  const ProcessState& newest = s_.history[last % kHistory];
  const bool again =
      s_.retired > 0 && newest.pid == slot.pid && newest.pid_start == slot.pid_start && newest.last_ns == slot.last_ns;
  const uint64_t entry = again ? last : s_.retired;
  s_.history[entry % kHistory] = slot;
  commit_point();
  s_.retired = entry + 1;
  commit_point();
  slot.pid = 0;
  s_.clients &= ~(uint64_t{1} << process);
  if (s_.clients == 0) s_.mps_fault = 0;
}

int DeviceModel::open_stream(int process, int priority, int32_t context) {
  if (s_.lost != 0) return kNone;
  for (int i = 0; i < kMaxStreams; ++i) {
    StreamState& stream = s_.streams[i];
    if (stream.process != kNone) continue;
    stream.priority = priority;
    stream.context = context;
    stream.error = 0;
    s_.busy_words = std::max(s_.busy_words, i / 64 + 1);
    commit_point();
    stream.process = process;
    return i;
  }
  return kNone;
}

void DeviceModel::close_stream(int index) {
  StreamState& stream = s_.streams[index];
  disturb();
  drop_records(index);
  s_.busy[index / 64] &= ~(uint64_t{1} << (index % 64));
  stream.done = stream.tail;
  commit_point();
  stream.process = kNone;
}

bool DeviceModel::full(int stream) const {
  const StreamState& state = s_.streams[stream];
  return state.tail - state.done >= kRingOps || !ranges_fit(state);
}

uint64_t DeviceModel::enqueue(int index, const OpRequest& request) {
  StreamState& stream = s_.streams[index];
  const uint64_t seq = stream.tail;
  Op& op = at(index, seq);
  op.left_ns = request.duration_ns;
  stream.submitted_ns = std::max(stream.submitted_ns, s_.time_ns) + request.submission_ns;
  op.ready_ns = stream.submitted_ns + s_.launch_latency_ns;
  op.overlap_ns = request.overlap_ns;
  op.work_end_ns = stream.work_ns + request.duration_ns;
  op.start_ns = op.end_ns = 0;
  op.arrival = s_.arrivals++;
  op.wait_stream = static_cast<int16_t>(request.wait_stream);
  op.wait_seq = request.wait_seq;
  op.record = request.record;
  op.error = request.error;
  op.kind = request.kind;
  op.move = request.ranges.empty() ? Move::none : request.move;
  op.ranges = 0;
  if (op.move != Move::none) name_ranges(stream, op, request.ranges);
  op.left_part = 0;
  op.demand = request.demand == 1 ? kWholeDevice : demand_of(request.demand);
  op.waves = static_cast<uint8_t>(std::min<uint64_t>(request.waves, UINT8_MAX));
  stream.work_ns = op.work_end_ns;
  const bool first = stream.done == seq;
  if (first) disturb();
  commit_point();
  stream.tail = seq + 1;
  s_.busy[index / 64] |= uint64_t{1} << (index % 64);
  if (first) advance(s_.time_ns);  // behind other ops it changes nothing now
  return seq;
}

void DeviceModel::advance(int64_t now_ns) {
  if (now_ns < s_.quiet_until_ns) {
    s_.time_ns = std::max(s_.time_ns, now_ns);
    return;
  }
  bool rotate = false;
  int64_t next = 0;
  for (;;) {
    Survey seen = survey();
    while (!seen.settled) seen = survey();
    assign_compute(seen, rotate);
    for (const EngineId engine : {kCopyIn, kCopyOut}) {
      const bool free = s_.engines[engine].stream == kNone && s_.managed.link_until_ns[engine] <= s_.time_ns;
      if (free && seen.copy[engine] != kNone) start(engine, seen.copy[engine]);
    }
    if (s_.running > 1 || s_.crowded != 0) share_out();
    const int64_t slice = slice_event(seen);
    next = following_event(seen, slice);
    if (next > now_ns) break;
    rotate = next == slice;
    s_.time_ns = next;
    const auto end = [&](int id) {
      const Engine& engine = s_.engines[id];
      if (engine.stream == kNone || engine.end_ns > next) return;
      stop_account(id);
      complete(engine.stream, s_.time_ns - engine.started_ns);
      clear(id);
    };
    end(kCopyIn);
    end(kCopyOut);
    if (s_.running > 0) for_running(end);
    if (rotate) preempt();
  }
  s_.time_ns = std::max(s_.time_ns, now_ns);
  s_.quiet_until_ns = next;
}

// One look at the head of every stream that has one. Completes those that need no engine; as one may release another,
// the answer counts only when there was none.
DeviceModel::Survey DeviceModel::survey() {
  Survey seen;
  uint64_t arrivals[2] = {};
  // Is a kernel of this stream next?
  const auto kernel_of = [&](int i) {
    while (is_busy(i) && is_marker(head(i).kind) && ready(head(i))) {
      complete(i);
      seen.settled = false;
    }
    if (!is_busy(i)) return false;
    const Op& op = head(i);
    if (op.kind == OpKind::host || !may_start(op)) return false;
    if (op.ready_ns > s_.time_ns) {
      seen.ready_ns = std::min(seen.ready_ns, op.ready_ns);
      return false;
    }
    const EngineId engine = engine_of(op.kind);
    if (engine == kCompute) return true;
    if (seen.copy[engine] == kNone || op.arrival < arrivals[engine]) {
      seen.copy[engine] = i;
      arrivals[engine] = op.arrival;
    }
    return false;
  };
  for (int word = 0; word < s_.busy_words; ++word) {
    uint64_t kernels = 0;
    for (uint64_t bits = s_.busy[word]; bits != 0; bits &= bits - 1) {
      const int i = word * 64 + std::countr_zero(bits);
      if (!kernel_of(i)) continue;
      kernels |= bits & -bits;
      seen.waiting |= uint64_t{1} << s_.streams[i].process;
    }
    seen.streams[word] = kernels;
  }
  return seen;
}

void DeviceModel::start(int id, int stream) {
  Engine& engine = s_.engines[id];
  const int owner = s_.streams[stream].process;
  ProcessState& process = s_.processes[owner];
  if (id >= kCompute && !computing(owner)) process.since_ns = s_.time_ns;
  if (id >= kCompute && !computing(kNone)) s_.since_ns = s_.time_ns;
  engine.seq = s_.streams[stream].done;
  Op& op = at(stream, engine.seq);
  if (op.start_ns == 0) op.start_ns = s_.time_ns;
  engine.started_ns = engine.since_ns = s_.time_ns;
  engine.rate = kFullSpeed;
  const int64_t waits_ns = op.move == Move::none ? 0 : wait_for_memory(id, stream);
  const bool copies = id < kCompute && op.left_ns > 0;
  op.left_ns += waits_ns;
  engine.end_ns = s_.time_ns + Left{op.left_ns, op.left_part}.up();
  engine.held_until_ns = 0;
  engine.places = op.demand;
  engine.block_ns = op.waves <= 1 ? op.left_ns : op.left_ns / op.waves;
  if (process.first_ns == 0) process.first_ns = s_.time_ns;
  if (trace_ != nullptr) trace_->started(op.record, s_.time_ns);
  if (copies && s_.both_ways != 1) engine.end_ns = use_link(id, s_.time_ns + waits_ns, op.left_ns - waits_ns);
  commit_point();
  engine.stream = stream;
  if (id < kCompute) return;
  if (s_.running > 0 && !yields_to_normal(owner) && !by_admission()) hold_places();
  s_.slots[(id - kCompute) / 64] |= uint64_t{1} << ((id - kCompute) % 64);
  s_.on_compute[stream / 64] |= uint64_t{1} << (stream % 64);
  ++s_.running;
  ++process.running;
}

// The engine has nothing to do any more. The op's account was stopped before.
void DeviceModel::clear(int id) {
  Engine& engine = s_.engines[id];
  const int stream = engine.stream;
  if (stream == kNone) return;
  commit_point();
  engine.stream = kNone;
  if (id < kCompute) return;
  s_.slots[(id - kCompute) / 64] &= ~(uint64_t{1} << ((id - kCompute) % 64));
  s_.on_compute[stream / 64] &= ~(uint64_t{1} << (stream % 64));
  --s_.running;
  --s_.processes[s_.streams[stream].process].running;
}

// The engine's op leaves it. Kernels that run side by side use the compute engine once, not twice.
void DeviceModel::stop_account(int id) {
  if (id < kCompute) return;
  Engine& engine = s_.engines[id];
  const int owner = s_.streams[engine.stream].process;
  const int64_t until = std::min(s_.time_ns, engine.end_ns);
  ProcessState& process = s_.processes[owner];
  Op& op = at(engine.stream, engine.seq);
  if (engine.rate == kFullSpeed && op.demand == kWholeDevice && op.left_part == 0) {
    op.left_ns -= until - engine.since_ns;
    process.work_ns += until - engine.since_ns;
    engine.since_ns = until;
  } else {
    settle(engine, until);
  }
  process.busy_ns += until - process.since_ns;
  process.recent.add(process.since_ns, until);
  process.since_ns = until;
  s_.busy_ns += until - s_.since_ns;
  s_.recent.add(s_.since_ns, until);
  s_.since_ns = until;
}

// `ran_ns`: how long it was on its engine since it came there, last time.
void DeviceModel::complete(int index, int64_t ran_ns) {
  StreamState& stream = s_.streams[index];
  Op& op = at(index, stream.done);
  ProcessState& process = s_.processes[stream.process];
  if (op.error != 0) {
    process.last_ns = s_.time_ns;
    if (trace_ != nullptr) trace_->ended(op.record, s_.time_ns, Outcome::failed);
    kill_context(stream.process, stream.context, op.error);
    return;
  }
  op.end_ns = s_.time_ns;
  op.completion = s_.completions++;
  if (trace_ != nullptr) trace_->ended(op.record, s_.time_ns, Outcome::done);
  process.kernels += op.kind == OpKind::kernel ? 1 : 0;
  process.last_ns = s_.time_ns;
  if (stream.done + 1 < stream.tail) begin_behind(stream.process, op, ran_ns, at(index, stream.done + 1));
  stream.ranges_done += op.ranges;
  commit_point();
  stream.done += 1;
  if (stream.done == stream.tail) s_.busy[index / 64] &= ~(uint64_t{1} << (index % 64));
}

// What passes on the device between two ops of one stream that wait in line.
int64_t DeviceModel::gap_between(OpKind before, OpKind next) const {
  const bool after_event = before == OpKind::timed_event;
  if (next == OpKind::timed_event) return after_event ? s_.event_gap_ns : needs_engine(before) ? s_.kernel_event_gap_ns : 0;
  if (!needs_engine(next)) return 0;
  return after_event ? s_.kernel_event_gap_ns : s_.kernel_gap_ns;
}

// The op that was in line behind one that has just ended. A dependent launch that is on the device by then has done its first
// part meanwhile; whatever stands between two kernels takes that from it.
void DeviceModel::begin_behind(int process, const Op& before, int64_t ran_ns, Op& next) {
  const int64_t gap_ns = gap_between(before.kind, next.kind);
  if (!needs_engine(next.kind) && gap_ns == 0) return;
  const int64_t overlap_ns = before.kind == OpKind::kernel ? std::min({next.overlap_ns, ran_ns, next.left_ns}) : 0;
  if (overlap_ns <= 0 || next.ready_ns > s_.time_ns - overlap_ns) {
    // Measured on an H200: the gap between two kernels in line is no reason to hand the engine over, a pause of the host is.
    const bool there = next.ready_ns <= s_.time_ns && engine_of(next.kind) == kCompute && s_.slice_ns > 0;
    next.ready_ns = std::max(next.ready_ns, s_.time_ns + gap_ns);
    if (there && turn_of(process) == s_.holder && may_start(next)) s_.line_until_ns = next.ready_ns;
    return;
  }
  next.ready_ns = std::max(next.ready_ns, s_.time_ns);
  next.left_ns -= overlap_ns;
  next.overlap_ns = 0;
}

int64_t DeviceModel::following_event(const Survey& seen, int64_t slice_event) const {
  int64_t next = std::min(slice_event, seen.ready_ns);
  if (s_.running > 1 || by_admission()) next = std::min(next, hold_event());
  if (s_.switch_end_ns > s_.time_ns) next = std::min(next, s_.switch_end_ns);
  const auto ends = [&](int id) {
    if (s_.engines[id].stream != kNone) next = std::min(next, s_.engines[id].end_ns);
  };
  ends(kCopyIn);
  ends(kCopyOut);
  if (s_.running > 0) for_running(ends);
  for (const int engine : {kCopyIn, kCopyOut}) {
    const int64_t until_ns = s_.managed.link_until_ns[engine];
    if (seen.copy[engine] != kNone && until_ns > s_.time_ns) next = std::min(next, until_ns);
  }
  return next;
}

int64_t DeviceModel::earliest_end(int index, uint64_t seq) const {
  if (done(index, seq)) return s_.time_ns;
  const Op& first = head(index);
  if (first.kind == OpKind::host && may_start(first)) return kNever;
  const int64_t after = op(index, seq).work_end_ns - first.work_end_ns;
  for (const int id : {kCopyIn, kCopyOut}) {
    if (s_.engines[id].stream == index) return s_.engines[id].end_ns + after;
  }
  int64_t running = kNever;
  for_running([&](int id) {
    if (s_.engines[id].stream == index) running = earliest_of_running(s_.engines[id]);
  });
  if (running != kNever) return running + after;
  int64_t begin = s_.time_ns;
  if (!may_start(first)) {
    begin = earliest_end(first.wait_stream, first.wait_seq);
    if (begin == kNever) return kNever;
  } else if (needs_engine(first.kind)) {
    begin = std::max(first.ready_ns, earliest_start(index));
  } else if (is_marker(first.kind)) {
    begin = std::max(first.ready_ns, s_.time_ns);
  }
  return begin + first.left_ns + after;
}

// When the engine that the stream's first op needs can be free for it.
int64_t DeviceModel::earliest_start(int index) const {
  const EngineId id = engine_of(head(index).kind);
  if (id == kCompute) return earliest_compute(index);
  return std::max(s_.time_ns, link_end(id));
}

bool DeviceModel::host_ready(int index, uint64_t seq) const {
  const StreamState& stream = s_.streams[index];
  return stream.done == seq && seq < stream.tail && op(index, seq).kind == OpKind::host && may_start(op(index, seq));
}

void DeviceModel::start_host(int index, uint64_t seq) {
  if (trace_ != nullptr) trace_->started(op(index, seq).record, s_.time_ns);
}

void DeviceModel::complete_host(int index, uint64_t seq) {
  if (!host_ready(index, seq)) return;
  disturb();
  complete(index);
  advance(s_.time_ns);
}

int64_t DeviceModel::busy_ns(int process) const {
  const int64_t counted = process == kNone ? s_.busy_ns : s_.processes[process].busy_ns;
  const int64_t since_ns = process == kNone ? s_.since_ns : s_.processes[process].since_ns;
  return counted + (computing(process) ? s_.time_ns - since_ns : 0);
}

int64_t DeviceModel::work_ns(int process) const {
  const ProcessState& account = s_.processes[process];
  double since = 0;
  for_running([&](int id) {
    const Engine& engine = s_.engines[id];
    if (s_.streams[engine.stream].process != process) return;
    const double done = static_cast<double>(s_.time_ns - engine.since_ns) * static_cast<double>(engine.rate);
    since += done / static_cast<double>(kFullSpeed) * head(engine.stream).demand / kWholeDevice;
  });
  return account.work_ns + std::llround(since);
}

double DeviceModel::utilisation(int process) const {
  RecentBusy recent = process == kNone ? s_.recent : s_.processes[process].recent;
  const int64_t since_ns = process == kNone ? s_.since_ns : s_.processes[process].since_ns;
  if (computing(process)) recent.add(since_ns, s_.time_ns);
  return recent.share(s_.time_ns);
}

bool DeviceModel::has_work(int process) const {
  bool found = false;
  for_busy_streams([&](int i) { found = found || s_.streams[i].process == process; });
  return found;
}

void DeviceModel::repair() {
  ++s_.repairs;
  disturb();
  s_.busy_words = 0;
  for (int i = 0; i < kMaxStreams; ++i) {
    StreamState& stream = s_.streams[i];
    const uint64_t bit = uint64_t{1} << (i % 64);
    if (stream.process != kNone && s_.processes[stream.process].pid == 0) stream.process = kNone;
    if (stream.process == kNone) {
      stream.done = stream.tail;
    } else {
      s_.busy_words = i / 64 + 1;
    }
    if (stream.done < stream.tail) {
      s_.busy[i / 64] |= bit;
    } else {
      s_.busy[i / 64] &= ~bit;
    }
    // An op whose enqueueing was cut short counted its work but does not exist.
    if (stream.tail > 0) stream.work_ns = at(i, stream.tail - 1).work_end_ns;
  }
  std::fill(std::begin(s_.slots), std::end(s_.slots), 0);
  std::fill(std::begin(s_.on_compute), std::end(s_.on_compute), 0);
  s_.clients = 0;
  s_.running = 0;
  s_.crowded = 1;
  for (int i = 0; i < kMaxProcesses; ++i) {
    s_.processes[i].running = 0;
    s_.clients |= s_.processes[i].pid != 0 && s_.processes[i].mps != 0 ? uint64_t{1} << i : 0;
  }
  for (int id = 0; id < kEngines; ++id) {
    Engine& engine = s_.engines[id];
    // The op was completed, or its process dropped, and only the engine's own note is left.
    if (engine.stream != kNone && s_.streams[engine.stream].done != engine.seq) engine.stream = kNone;
    if (engine.stream != kNone && !is_busy(engine.stream)) engine.stream = kNone;
    if (engine.stream == kNone || id < kCompute) continue;
    s_.slots[(id - kCompute) / 64] |= uint64_t{1} << ((id - kCompute) % 64);
    s_.on_compute[engine.stream / 64] |= uint64_t{1} << (engine.stream % 64);
    ++s_.running;
    ++s_.processes[s_.streams[engine.stream].process].running;
  }
  repair_managed();
  finish_killing();
}

}  // namespace emu
