// Managed memory in the device model, in manual time. Usage: emu_residency CASE. Exit code 0, or 1 with the line that failed.
#include <memory>
#include <random>
#include <vector>

#include "device_model/device_model.hpp"
#include "emu_expect.hpp"

using namespace emu;

namespace {

constexpr uint64_t kChunks = 8;               // that the device holds
constexpr int64_t kChunkNs = 100 * kUs;       // one over the link, alone
constexpr int64_t kFaultNs = 30 * kUs;        // a batch of faults, of one chunk
constexpr double kRate = static_cast<double>(kChunkBytes) / kChunkNs;

struct Bench {
  explicit Bench(double both_ways = 1, int64_t slice_ns = kMs, double out = kRate, double first_out = kRate)
      : state(std::make_unique<DeviceState>()), model(*state) {
    DeviceModel::initialise(*state, {.memory_bytes = kChunks * kChunkBytes,
                                     .slice_ns = slice_ns,
                                     .link_in = kRate,
                                     .link_out = out,
                                     .link_first_out = first_out,
                                     .both_ways = both_ways,
                                     .fault_batch_ns = kFaultNs});
    model.advance(1);
    for (int i = 0; i < 2; ++i) {
      process[i] = model.attach(100 + i, 1, 1);
      stream[i] = model.open_stream(process[i], 0);
    }
  }
  ChunkRange map(int of, uint64_t chunks) {
    ChunkRange range{};
    range.count = model.map_managed(process[of], chunks * kChunkBytes, range.first);
    return range;
  }
  // How long an op takes that begins on an idle device.
  int64_t run(int of, OpKind kind, int64_t ns, Move move, std::vector<ChunkRange> ranges) {
    const int64_t begin_ns = state->time_ns;
    const uint64_t seq = model.enqueue(stream[of], {.kind = kind, .duration_ns = ns, .move = move, .ranges = ranges});
    while (!model.done(stream[of], seq)) model.advance(model.next_event_ns());
    return model.op(stream[of], seq).end_ns - begin_ns;
  }
  int64_t kernel(int of, std::vector<ChunkRange> ranges) { return run(of, OpKind::kernel, kUs, Move::use, std::move(ranges)); }
  int64_t prefetch(int of, ChunkRange range) { return run(of, OpKind::copy_in, 0, Move::to_device, {range}); }
  int64_t send_out(int of, ChunkRange range) { return run(of, OpKind::copy_out, 0, Move::to_host, {range}); }
  const ProcessState& account(int of) const { return state->processes[process[of]]; }
  uint64_t resident(int of) const { return account(of).resident_bytes / kChunkBytes; }

  std::unique_ptr<DeviceState> state;
  DeviceModel model;
  int process[2];
  int stream[2];
};

int what_nobody_used_yet_costs_faults_only() {
  Bench b;
  const ChunkRange memory = b.map(0, 3);
  EXPECT(b.model.memory_used() == 0);
  EXPECT(b.kernel(0, {memory}) == kUs + 3 * kFaultNs);
  EXPECT(b.kernel(0, {memory}) == kUs);
  EXPECT(b.resident(0) == 3 && b.model.memory_used() == 3 * kChunkBytes);
  EXPECT(b.account(0).missed_chunks == 3 && b.account(0).moved_in_bytes == 0 && b.account(0).moved_out_bytes == 0);
  EXPECT(b.account(0).missing_ns == 3 * kFaultNs);
  return 0;
}

int what_is_on_the_host_comes_over_the_link() {
  Bench b;
  const ChunkRange memory = b.map(0, 3);
  b.kernel(0, {memory});
  EXPECT(b.send_out(0, memory) == 3 * kChunkNs);
  EXPECT(b.resident(0) == 0 && b.account(0).moved_out_bytes == 3 * kChunkBytes);
  EXPECT(b.account(0).evicted_chunks == 0);  // it was sent, nobody pushed it
  EXPECT(b.kernel(0, {memory}) == kUs + 3 * (kChunkNs + kFaultNs));
  b.send_out(0, memory);
  EXPECT(b.prefetch(0, memory) == 3 * kChunkNs);  // no faults
  EXPECT(b.prefetch(0, memory) == 0 && b.kernel(0, {memory}) == kUs);
  return 0;
}

int memory_leaves_more_slowly_than_it_comes_and_most_slowly_at_first() {
  Bench b(1, kMs, kRate / 3, kRate / 10);
  const ChunkRange memory = b.map(0, 3);
  b.kernel(0, {memory});
  EXPECT(b.send_out(0, {memory.first, 2}) == 2 * 10 * kChunkNs);
  EXPECT(b.prefetch(0, memory) == 2 * kChunkNs);
  EXPECT(b.send_out(0, memory) == 2 * 3 * kChunkNs + 10 * kChunkNs);
  EXPECT(b.prefetch(0, memory) == 3 * kChunkNs && b.send_out(0, memory) == 3 * 3 * kChunkNs);
  b.model.unmap_managed(b.process[0], memory);
  const ChunkRange anew = b.map(0, 3);
  b.kernel(0, {anew});
  EXPECT(b.send_out(0, anew) == 3 * 10 * kChunkNs);
  return 0;
}

// Two allocations of 6 and 4 chunks on a device of 8: of the older one go the two chunks that came first, although it was
// used last.
int victims_go_by_their_last_migration() {
  Bench b;
  const ChunkRange old = b.map(0, 6);
  const ChunkRange young = b.map(1, 4);
  b.kernel(0, {old});
  b.kernel(1, {{young.first, 2}});
  b.kernel(0, {old});
  EXPECT(b.kernel(1, {young}) == kUs + 2 * kChunkNs + 2 * kFaultNs);
  EXPECT(b.resident(0) == 4 && b.resident(1) == 4 && b.account(0).evicted_chunks == 2);
  EXPECT(b.state->managed.chunks[old.first].place == Place::host);
  EXPECT(b.state->managed.chunks[old.first + 1].place == Place::host);
  EXPECT(b.state->managed.chunks[old.first + 2].place == Place::device);
  return 0;
}

int plain_memory_takes_its_room_and_keeps_it() {
  Bench b;
  const ChunkRange memory = b.map(0, 8);
  b.kernel(0, {memory});
  int64_t ready_ns = 0;
  const int64_t now_ns = b.state->time_ns;
  EXPECT(b.model.reserve(b.process[1], 5 * kChunkBytes, &ready_ns));
  EXPECT(ready_ns == now_ns + 5 * kChunkNs && b.resident(0) == 3 && b.account(0).evicted_chunks == 5);
  EXPECT(b.model.memory_used() == kChunks * kChunkBytes);
  EXPECT(!b.model.reserve(b.process[1], 4 * kChunkBytes));  // plain memory makes no room
  EXPECT(b.model.reserve(b.process[1], 3 * kChunkBytes) && b.resident(0) == 0);
  b.model.advance(b.state->time_ns + kMs);  // the eviction is over
  // Nothing can be had any more: the chunk is used over the link, each time.
  EXPECT(b.kernel(0, {{memory.first, 1}}) == kUs + kChunkNs + kFaultNs && b.resident(0) == 0);
  EXPECT(b.kernel(0, {{memory.first, 1}}) == kUs + kChunkNs + kFaultNs);
  b.model.release(b.process[1], 8 * kChunkBytes);
  EXPECT(b.kernel(0, {memory}) == kUs + 8 * (kChunkNs + kFaultNs) && b.resident(0) == 8);
  return 0;
}

// More than the device in turn: the first to go is the first that is needed again.
int a_cycle_of_more_than_the_device_misses_always() {
  Bench b;
  const ChunkRange memory = b.map(0, kChunks + 1);
  b.kernel(0, {memory});
  for (int i = 0; i < 3; ++i) EXPECT(b.kernel(0, {memory}) == kUs + (kChunks + 1) * (kChunkNs + kFaultNs));
  return 0;
}

int misses_stand_in_line_with_copies() {
  Bench b;
  const ChunkRange memory = b.map(0, 2);
  b.kernel(0, {memory});
  b.send_out(0, memory);
  const int copies = b.model.open_stream(b.process[1], 0);
  const int64_t begin_ns = b.state->time_ns;
  const uint64_t copy = b.model.enqueue(copies, {OpKind::copy_in, kMs});
  const std::vector<ChunkRange> ranges = {memory};
  b.model.enqueue(b.stream[0], {.kind = OpKind::kernel, .duration_ns = kUs, .move = Move::use, .ranges = ranges});
  const uint64_t late = b.model.enqueue(copies, {OpKind::copy_in, kMs});
  EXPECT(b.model.earliest_end(copies, late) >= begin_ns + 2 * kMs);
  b.model.advance(begin_ns + 10 * kMs);
  EXPECT(b.model.op(copies, copy).end_ns == begin_ns + kMs);
  EXPECT(b.model.op(b.stream[0], b.state->streams[b.stream[0]].tail - 1).end_ns ==
         begin_ns + kMs + 2 * (kChunkNs + kFaultNs) + kUs);
  EXPECT(b.model.op(copies, late).end_ns == begin_ns + 2 * kMs + 2 * kChunkNs);
  return 0;
}

// At half the rate each while both are used, and at full rate after.
int both_directions_at_once_are_slower() {
  Bench b(0.5);
  const int in = b.stream[0];
  const int out = b.stream[1];
  const int64_t begin_ns = b.state->time_ns;
  const uint64_t a = b.model.enqueue(in, {OpKind::copy_in, 4 * kMs});
  b.model.advance(begin_ns + kMs);
  const uint64_t c = b.model.enqueue(out, {OpKind::copy_out, kMs});
  b.model.advance(begin_ns + 100 * kMs);
  EXPECT(b.model.op(out, c).end_ns == begin_ns + kMs + 2 * kMs);
  EXPECT(b.model.op(in, a).end_ns == begin_ns + 4 * kMs + kMs);
  return 0;
}

// A process that waits longer than its slice for what the other one took still gets its slice.
int who_pages_gets_on() {
  Bench b(1, 200 * kUs);
  const ChunkRange memory[2] = {b.map(0, 6), b.map(1, 6)};
  for (int of = 0; of < 2; ++of) {
    const std::vector<ChunkRange> ranges = {memory[of]};
    b.model.enqueue(b.stream[of], {.kind = OpKind::kernel, .duration_ns = kMs, .move = Move::use, .ranges = ranges});
  }
  const int64_t begin_ns = b.state->time_ns;
  b.model.advance(begin_ns + 100 * kMs);
  for (int of = 0; of < 2; ++of) {
    EXPECT(b.model.done(b.stream[of], 0));
    EXPECT(b.account(of).missed_chunks >= 5 * 4 && b.account(of).missed_chunks <= 6 * 6);  // in each slice anew
  }
  return 0;
}

int freed_memory_is_left_alone() {
  Bench b;
  const ChunkRange mine = b.map(0, 2);
  b.kernel(0, {mine});
  b.model.unmap_managed(b.process[0], mine);
  EXPECT(b.model.memory_used() == 0 && b.account(0).managed_bytes == 0);
  b.state->managed.next = 0;
  const ChunkRange theirs = b.map(1, 2);
  EXPECT(theirs.first == mine.first);
  b.kernel(1, {theirs});
  const ChunkRange other = b.map(0, 1);
  EXPECT(b.kernel(0, {mine, other}) == kUs + kFaultNs);  // a stale name: of `other` alone
  EXPECT(b.send_out(0, theirs) == 0 && b.resident(1) == 2);
  b.model.unmap_managed(b.process[0], theirs);
  EXPECT(b.resident(1) == 2);
  b.model.retire(b.process[1]);
  EXPECT(b.model.memory_used() == kChunkBytes);
  return 0;
}

int allocations_find_the_room_that_there_is() {
  Bench b;
  ChunkRange range{};
  EXPECT(b.model.map_managed(b.process[0], 0, range.first) == 0);
  EXPECT(b.model.map_managed(b.process[0], UINT64_MAX / 2, range.first) == 0);
  const ChunkRange half = b.map(0, kMaxChunks / 2);
  const ChunkRange rest = b.map(1, kMaxChunks / 2 - 1);
  EXPECT(half.count == kMaxChunks / 2 && rest.count == kMaxChunks / 2 - 1);
  EXPECT(b.map(0, 2).count == 0 && b.map(0, 1).count == 1 && b.map(0, 1).count == 0);
  b.model.unmap_managed(b.process[0], {half.first + 5, 3});
  EXPECT(b.map(1, 4).count == 0);
  const ChunkRange found = b.map(1, 3);
  EXPECT(found.count == 3 && found.first == half.first + 5);
  return 0;
}

int a_stream_full_of_names_is_full() {
  Bench b;
  const ChunkRange memory = b.map(0, 1);
  const std::vector<ChunkRange> many(1000, memory);  // all but kRangesOfOp of them are not looked at
  const int s = b.stream[0];
  int ops = 0;
  for (; !b.model.full(s); ++ops)
    b.model.enqueue(s, {.kind = OpKind::kernel, .duration_ns = kUs, .move = Move::use, .ranges = many});
  EXPECT(ops == kRingRanges / kRangesOfOp);
  b.model.advance(b.state->time_ns + kMs);
  EXPECT(!b.model.full(s) && b.model.done(s, static_cast<uint64_t>(ops) - 1));
  return 0;
}

// What is derived is right after any history, and the same after repair().
int repair_rebuilds_residency() {
  std::mt19937 random(20261126);
  Bench b(0.5, 100 * kUs);
  std::vector<std::pair<int, ChunkRange>> live;
  for (int step = 0; step < 3000; ++step) {
    const int of = static_cast<int>(random() % 2);
    const auto action = random() % 6;
    if (action == 0 && live.size() < 12) live.emplace_back(of, b.map(of, 1 + random() % 4));
    if (action == 1 && !live.empty()) {
      const size_t gone = random() % live.size();
      b.model.unmap_managed(b.process[live[gone].first], live[gone].second);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(gone));
    }
    if (action >= 2 && !live.empty() && !b.model.full(b.stream[of])) {
      const std::vector<ChunkRange> ranges = {live[random() % live.size()].second, live[random() % live.size()].second};
      const auto kind = static_cast<OpKind>(random() % 4);
      b.model.enqueue(b.stream[of], {.kind = kind,
                                     .duration_ns = static_cast<int64_t>(random() % 1000),
                                     .move = static_cast<Move>(1 + random() % 3),
                                     .ranges = ranges});
    }
    if (random() % 50 == 0) b.model.reserve(b.process[of], kChunkBytes);
    if (random() % 30 == 0) b.model.release(b.process[of], kChunkBytes);
    b.model.advance(b.state->time_ns + static_cast<int64_t>(random() % 500'000));
    EXPECT(b.model.memory_used() <= kChunks * kChunkBytes);
    uint64_t resident = 0;
    for (int i = 0; i < b.state->managed.end; ++i) {
      const Chunk& chunk = b.state->managed.chunks[i];
      if (chunk.owner != 0 && chunk.place == Place::device) resident += chunk.bytes;
    }
    EXPECT(resident == b.account(0).resident_bytes + b.account(1).resident_bytes);
  }
  b.model.release(b.process[0], kChunks * kChunkBytes);
  b.model.release(b.process[1], kChunks * kChunkBytes);
  live.emplace_back(0, b.map(0, 3));
  live.emplace_back(1, b.map(1, 2));
  b.prefetch(0, live[live.size() - 2].second);
  b.prefetch(1, live.back().second);
  const auto order = [&] {
    std::vector<int32_t> found;
    for (int32_t i = b.state->managed.oldest; i != kNone; i = b.state->managed.chunks[i].newer) found.push_back(i);
    return found;
  };
  const std::vector<int32_t> before = order();
  const uint64_t used = b.model.memory_used();
  EXPECT(before.size() >= 5);
  ManagedState& managed = b.state->managed;
  managed.oldest = managed.newest = 77;
  b.state->processes[b.process[0]].resident_bytes = 12345;
  b.state->processes[b.process[1]].managed_bytes = 12345;
  b.model.repair();
  EXPECT(order() == before && b.model.memory_used() == used);
  uint64_t mapped = 0;
  for (const auto& [of, range] : live) mapped += static_cast<uint64_t>(range.count) * kChunkBytes;
  EXPECT(mapped == b.account(0).managed_bytes + b.account(1).managed_bytes);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  static const Case cases[] = {
      CASE(what_nobody_used_yet_costs_faults_only),
      CASE(what_is_on_the_host_comes_over_the_link),
      CASE(memory_leaves_more_slowly_than_it_comes_and_most_slowly_at_first),
      CASE(victims_go_by_their_last_migration),
      CASE(plain_memory_takes_its_room_and_keeps_it),
      CASE(a_cycle_of_more_than_the_device_misses_always),
      CASE(misses_stand_in_line_with_copies),
      CASE(both_directions_at_once_are_slower),
      CASE(who_pages_gets_on),
      CASE(freed_memory_is_left_alone),
      CASE(allocations_find_the_room_that_there_is),
      CASE(a_stream_full_of_names_is_full),
      CASE(repair_rebuilds_residency),
  };
  return run_cases(cases, argc, argv);
}
