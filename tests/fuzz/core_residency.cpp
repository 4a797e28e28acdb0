// Plans of whose memory is on the GPU (fikitd/core/residency), for sequences, budgets, links and tenants that somebody has made up: a
// plan that says that it keeps the budget keeps it, a choice that says that it fits fits, and everything ends.
// A libFuzzer target (`make fuzz`), or a program of its own (alone.c).
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

#include "input.hpp"
#include "residency/budget.hpp"
#include "residency/epochs.hpp"
#include "residency/lane.hpp"

namespace {

using namespace fikit::residency;
using fikit::fuzz::check;
using fikit::fuzz::Input;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 53; // that fikitd believes a client

// Small ones mostly, and all that there are.
std::int64_t number(Input& input) {
  const auto bits = input.take<std::uint8_t>() % 64;
  return static_cast<std::int64_t>(input.take<std::uint64_t>() >> (bits < 48 ? 48 + bits % 16 : bits - 47));
}

double rate(Input& input) {
  constexpr double kRates[] = {24e9, 1e12, 1e9, 1e6, 1, 1e-300, 1e300, 2.5};
  return kRates[input.take<std::uint8_t>() % 8];
}

std::vector<Chunk> some_chunks(Input& input) {
  std::vector<Chunk> found;
  const auto bits = input.take<std::uint16_t>();
  for (Chunk chunk = 0; chunk < 12; ++chunk)
    if (bits >> chunk & 1) found.push_back(chunk);
  if (bits >> 12 == 15) found.push_back(static_cast<Chunk>(number(input)));
  return found;
}

Sequence sequence_of(Input& input, bool* frees) {
  Sequence sequence;
  for (int kernels = 1 + input.take<std::uint8_t>() % 24; kernels > 0; --kernels) try {
      const auto touched = some_chunks(input), freed = input.take<std::uint8_t>() % 8 == 0 ? some_chunks(input) : std::vector<Chunk>();
      sequence.add(number(input), touched, freed);
      *frees = *frees || !freed.empty();
    } catch (const std::invalid_argument&) {
    }
  return sequence;
}

// One transfer at a time, in this order, for ever: on the GPU is what has begun to come in and has not gone yet.
void check_budget(const Sequence& sequence, const BudgetPlan& made, std::int64_t budget_chunks) {
  std::map<Chunk, bool> there;
  for (std::size_t kernel = 0; kernel < sequence.kernels(); ++kernel)
    for (const Chunk chunk : sequence.touched(kernel)) there[chunk] = true;
  for (auto each = made.transfers.rbegin(); each != made.transfers.rend(); ++each) there[each->chunk] = !each->in; // before its first one
  std::int64_t count = 0;
  for (const auto& [chunk, is_there] : there) count += is_there;
  check(count <= budget_chunks);
  for (int pass = 0; pass < 2; ++pass)
    for (const Transfer& each : made.transfers) {
      check(there[each.chunk] != each.in);
      there[each.chunk] = each.in;
      count += each.in ? 1 : -1;
      check(count <= budget_chunks);
    }
}

void try_plan(Input& input) {
  constexpr std::int64_t kChunkBytes[] = {2 << 20, 1000, 1, std::int64_t{1} << 62};
  bool frees = false;
  const Sequence sequence = sequence_of(input, &frees);
  const Link link{.in_bytes_per_s = rate(input), .out_bytes_per_s = rate(input), .lead_ns = input.take<std::uint8_t>() % 4 == 0 ? number(input) : 0};
  const std::int64_t chunk_bytes = kChunkBytes[input.take<std::uint8_t>() % 4];
  const std::int64_t chunks = input.take<std::uint8_t>() % 16;
  const std::int64_t budget_bytes = chunk_bytes > 1 << 30 ? chunk_bytes : chunks * chunk_bytes + input.take<std::uint8_t>();
  BudgetPlan made;
  try {
    made = plan(sequence, link, chunk_bytes, budget_bytes);
  } catch (const std::invalid_argument&) {
    return;
  }
  check(made.peak_bytes >= 0 && made.moved_bytes == static_cast<std::int64_t>(made.transfers.size()) * chunk_bytes);
  check(!made.fits || made.peak_bytes <= budget_bytes);
  check(made.fits || least_bytes(sequence, chunk_bytes) > budget_bytes / chunk_bytes * chunk_bytes);
  check(std::isfinite(made.stretch) && made.stretch >= 0);
  check(peak_bytes(sequence, chunk_bytes) > budget_bytes || made.transfers.empty());
  for (const Transfer& each : made.transfers)
    check(each.chunk < sequence.chunks() && each.kernel < sequence.kernels() && each.delay_ns >= 0 && each.begin_ns >= 0);
  if (made.fits && made.steady && !frees) check_budget(sequence, made, budget_bytes / chunk_bytes);
}

// The least that is lost, by trying all.
std::optional<double> least_lost(const std::vector<std::vector<Point>>& jobs, std::size_t job, std::int64_t room_bytes, double lost) {
  if (job == jobs.size()) return lost;
  std::optional<double> best;
  for (const Point& point : jobs[job])
    if (point.bytes <= room_bytes) {
      const auto found = least_lost(jobs, job + 1, room_bytes - point.bytes, lost + point.lost);
      if (found && (!best || *found < *best)) best = found;
    }
  return best;
}

void try_share_room(Input& input) {
  std::vector<std::vector<Point>> jobs(1 + input.take<std::uint8_t>() % 4);
  for (auto& points : jobs)
    for (int left = 1 + input.take<std::uint8_t>() % 4; left > 0; --left) {
      const std::int64_t bytes = number(input);
      points.push_back({.bytes = bytes, .lost = input.take<std::uint8_t>() % 4 == 0 ? input.take<double>() : input.take<std::int8_t>() / 8.0});
    }
  const std::int64_t room_bytes = input.take<std::uint8_t>() % 8 == 0 ? -number(input) : number(input);
  std::vector<std::size_t> chosen;
  try {
    chosen = share_room(jobs, room_bytes);
  } catch (const std::invalid_argument&) {
    return;
  }
  const auto least = least_lost(jobs, 0, room_bytes, 0);
  check(chosen.size() == (least ? jobs.size() : 0));
  std::int64_t left_bytes = room_bytes;
  double lost = 0;
  for (std::size_t job = 0; job < chosen.size(); ++job) {
    const Point& point = jobs[job].at(chosen[job]);
    check(point.bytes <= left_bytes);
    left_bytes -= point.bytes;
    lost += point.lost;
  }
  check(!least || lost == *least);
}

void try_epoch(Input& input) {
  std::vector<Tenant> tenants(input.take<std::uint8_t>() % 20);
  for (Tenant& each : tenants) {
    each.bytes = number(input) % kMostBytes;
    each.resident_bytes = number(input) % kMostBytes;
    const auto how = input.take<std::uint8_t>();
    each.work = how % 8 == 0 ? input.take<double>() : how / 255.0;
    each.waited_ns = number(input);
    each.runs = how & 1;
  }
  EpochRules rules;
  rules.link = {.in_bytes_per_s = rate(input), .out_bytes_per_s = rate(input)};
  if (input.take<std::uint8_t>() % 4 == 0) rules.least_epoch_ns = number(input);
  const std::int64_t room_bytes = number(input) % kMostBytes;
  try {
    const Epoch epoch = next_epoch(rules, room_bytes, tenants);
    check(epoch.runs.size() == tenants.size() && epoch.swap_ns >= 0 && epoch.length_ns > 0);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < tenants.size(); ++i) bytes += epoch.runs[i] ? tenants[i].bytes : 0;
    check(bytes <= room_bytes);
    for (const Move& move : epoch.moves) {
      check(move.tenant < tenants.size() && move.bytes > 0);
      check(move.in ? move.bytes <= tenants[move.tenant].bytes : move.bytes <= tenants[move.tenant].resident_bytes);
    }
    check(longest_wait_ns(rules, room_bytes, tenants.size()) > 0);
  } catch (const std::invalid_argument&) {
  }
}

// Beside a timetable that is kept ns by ns.
void try_lane(Input& input) {
  constexpr std::int64_t kPeriodNs = 48;
  std::vector<bool> busy(kPeriodNs);
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  Lane lane(kPeriodNs);
  const auto is_free = [&](std::int64_t begin_ns, std::int64_t length_ns) {
    for (std::int64_t i = 0; i < length_ns; ++i)
      if (busy[static_cast<std::size_t>((begin_ns + i) % kPeriodNs)]) return false;
    return true;
  };
  const auto set = [&](std::int64_t begin_ns, std::int64_t length_ns, bool value) {
    for (std::int64_t i = 0; i < length_ns; ++i) busy[static_cast<std::size_t>((begin_ns + i) % kPeriodNs)] = value;
  };
  while (!input.empty()) {
    const auto how = input.take<std::uint8_t>();
    if (how % 4 == 0 && !taken.empty()) {
      const auto it = taken.begin() + how / 4 % static_cast<std::ptrdiff_t>(taken.size());
      lane.give_back(it->first, it->second);
      set(it->first, it->second, false);
      taken.erase(it);
      continue;
    }
    const std::int64_t from_ns = input.take<std::uint8_t>() % (2 * kPeriodNs), until_ns = from_ns + input.take<std::uint8_t>() % (kPeriodNs + 1);
    const std::int64_t length_ns = 1 + input.take<std::uint8_t>() % 12;
    std::optional<std::int64_t> first, last;
    for (std::int64_t begin_ns = from_ns; begin_ns + length_ns <= until_ns; ++begin_ns)
      if (is_free(begin_ns, length_ns)) {
        if (!first) first = begin_ns;
        last = begin_ns;
      }
    check(lane.earliest(from_ns, until_ns, length_ns) == first && lane.latest(from_ns, until_ns, length_ns) == last);
    if (!first) continue;
    const std::int64_t begin_ns = how & 4 ? *first : *last;
    lane.take(begin_ns, length_ns);
    set(begin_ns, length_ns, true);
    taken.emplace_back(begin_ns, length_ns);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  switch (input.take<std::uint8_t>() % 4) {
    case 0: try_plan(input); break;
    case 1: try_share_room(input); break;
    case 2: try_epoch(input); break;
    default: try_lane(input);
  }
  return 0;
}
