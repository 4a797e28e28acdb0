// Whose kernels the compute engine runs: processes in turn, in slices or kernel by kernel, at a cost for each change of
// process; MPS clients have one turn together. How fast kernels run that are there at the same time: overlap.cpp; which
// may be: admission.cpp.
#include <algorithm>
#include <bit>

#include "device_model.hpp"

namespace emu {

int DeviceModel::free_slot() const {
  for (int word = 0; word < kMaxConcurrent / 64; ++word) {
    if (~s_.slots[word] != 0) return kCompute + word * 64 + std::countr_one(s_.slots[word]);
  }
  return kNone;
}

// The process runs as many kernels at once as it may.
bool DeviceModel::at_limit(int process) const {
  return (s_.sharing == Sharing::merged ? s_.running : s_.processes[process].running) >= s_.concurrency;
}

// Another process than the holder has something to run.
bool DeviceModel::contended(const Survey& seen) const {
  if (s_.holder == kNone) return seen.waiting != 0;
  return (seen.waiting & ~(s_.holder == kMpsGroup ? s_.clients : uint64_t{1} << s_.holder)) != 0;
}

// The stream whose first op is to run next, kNone when there is none. Turns from `first` on; within a turn MPS clients
// of normal priority first, then by stream priority, then by arrival: where they are admitted, at the head of the stream.
int DeviceModel::next_for_compute(const Survey& seen, int first, bool holder_only) const {
  constexpr int kTurns = kMaxProcesses + 1;
  uint64_t best_rank = 0;
  int best = kNone;
  const uint64_t clients = s_.clients;
  const bool alone = s_.running == 0;
  const int holder = s_.holder;
  const auto consider = [&](int i) {
    const StreamState& stream = s_.streams[i];
    const int turn = ((clients >> stream.process) & 1) != 0 ? kMpsGroup : stream.process;
    if (holder_only && turn != holder) return;
    if (!alone && at_limit(stream.process)) return;
    const bool yields = turn == kMpsGroup && yields_to_normal(stream.process);
    // Not one of its blocks would find a place.
    const bool admitted = turn == kMpsGroup && by_admission();
    if (yields && !admitted && room_behind_normal() == 0) return;
    const auto distance = static_cast<uint64_t>(turn >= first ? turn - first : turn - first + kTurns);
    const uint32_t priority = static_cast<uint32_t>(stream.priority) + 0x8000'0000U;
    const uint64_t rank = distance << 33 | uint64_t{yields} << 32 | priority;
    const auto later = [&] {
      const Op& op = head(i);
      const Op& than = head(best);
      return admitted && op.ready_ns != than.ready_ns ? op.ready_ns > than.ready_ns : op.arrival > than.arrival;
    };
    if (best != kNone && (rank > best_rank || (rank == best_rank && later()))) return;
    best = i;
    best_rank = rank;
  };
  for (int word = 0; word < s_.busy_words; ++word) {
    const uint64_t streams = alone ? seen.streams[word] : seen.streams[word] & ~s_.on_compute[word];
    for (uint64_t bits = streams; bits != 0; bits &= bits - 1) consider(word * 64 + std::countr_zero(bits));
  }
  return best;
}

void DeviceModel::assign_compute(const Survey& seen, bool rotate) {
  if (seen.waiting == 0) s_.refused = 0;
  if (seen.waiting == 0 || s_.time_ns < s_.switch_end_ns) return;
  for (;;) {
    const bool running = computing(kNone);
    if (running && (s_.holder != kMpsGroup || s_.sharing == Sharing::merged) && at_limit(s_.holder)) return;
    const int slot = free_slot();
    if (slot == kNone) return;
    // Run to completion: nobody joins the running kernels while another process waits for their end.
    if (running && s_.slice_ns == 0 && contended(seen)) return;
    // After a hand-over its reason comes first, or two processes would hand the engine back and forth for nothing.
    const bool keeps_turn = (s_.slice_ns > 0 && !rotate) || (s_.switch_ns > 0 && s_.time_ns == s_.switch_end_ns);
    const int first = keeps_turn ? std::max(s_.holder, 0) : s_.holder + 1;
    const int best = next_for_compute(seen, first, running || s_.time_ns < kept_until() || (in_line() && !rotate));
    if (best == kNone) return;
    const int turn = turn_of(s_.streams[best].process);
    const bool handed_over = turn != s_.holder && s_.holder != kNone;
    if (rotate || turn != s_.holder) {
      s_.slice_start_ns = s_.time_ns;
      s_.line_until_ns = 0;
    }
    s_.holder = turn;
    if (handed_over && s_.switch_ns > 0) {
      s_.switch_end_ns = s_.time_ns + s_.switch_ns;
      s_.slice_start_ns = s_.switch_end_ns;
      return;
    }
    if (turn == kMpsGroup && by_admission() && !admit(best)) return;
    start(slot, best);
    rotate = false;
  }
}

void DeviceModel::preempt() {
  for_running([&](int id) {
    stop_account(id);
    clear(id);
  });
}

// The end of the holder's slice. Slices renew themselves while nobody waits for it.
int64_t DeviceModel::slice_end() const {
  if (s_.slice_ns <= 0) return kNever;
  const int64_t length = slice_of(s_.holder);
  const int64_t passed_ns = s_.time_ns - s_.slice_start_ns;
  if (passed_ns < length) return s_.slice_start_ns + length;  // mostly, and without a division
  return s_.slice_start_ns + (passed_ns / length + 1) * length;
}

// Where an idle process does not yield: the end of the slice in which the holder's last kernel ended. 0: it keeps
// nothing.
int64_t DeviceModel::kept_until() const {
  if (s_.idle_holds == 0 || s_.slice_ns <= 0 || s_.holder == kNone || computing(kNone)) return 0;
  const bool gone = s_.holder == kMpsGroup ? s_.clients == 0 : s_.processes[s_.holder].pid == 0;
  if (gone) return 0;
  const int64_t length = slice_of(s_.holder);
  const int64_t slices = (s_.since_ns - s_.slice_start_ns + length - 1) / length;
  return s_.slice_start_ns + std::max<int64_t>(slices, 1) * length;
}

int64_t DeviceModel::slice_event(const Survey& seen) const {
  if (s_.slice_ns <= 0 || !contended(seen)) return kNever;
  if (computing(kNone) || in_line()) return slice_end();
  const int64_t kept_ns = kept_until();
  return kept_ns > s_.time_ns ? kept_ns : kNever;
}

// When a kernel of this stream can start, as far as the kernels that run now are concerned.
int64_t DeviceModel::earliest_compute(int index) const {
  const int64_t begin = std::max(s_.time_ns, s_.switch_end_ns);
  const int process = s_.streams[index].process;
  const bool in_turn = turn_of(process) == s_.holder;
  if (!computing(kNone)) return in_turn ? begin : std::max({begin, kept_until(), std::min(s_.line_until_ns, slice_end())});
  if (!in_turn) {
    int64_t last_end = 0;
    for_running([&](int id) { last_end = std::max(last_end, earliest_of_running(s_.engines[id])); });
    return std::max(begin, std::min(last_end, slice_end()));
  }
  const bool admitted = is_client(process) && by_admission();
  // Who waits for room waits at least until something happens to those who have it.
  if (yields_to_normal(process) && !admitted && room_behind_normal() == 0) return std::max(begin, s_.quiet_until_ns);
  const bool waits_for_end = admitted && !has_room(index) && !way_can_be_made(process);
  if (!at_limit(process) && free_slot() != kNone && !waits_for_end) return begin;
  int64_t first_end = kNever;
  for_running([&](int id) { first_end = std::min(first_end, earliest_of_running(s_.engines[id])); });
  return std::max(begin, first_end);
}

}  // namespace emu
