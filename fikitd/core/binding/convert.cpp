#include "convert.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "hex.hpp"

namespace nb = nanobind;

namespace fikit::binding {
namespace {

std::array<std::uint32_t, 3> three(nb::handle numbers) {
  const auto sequence = nb::cast<nb::sequence>(numbers);
  if (nb::len(sequence) != 3) throw nb::value_error("grid and block have three numbers");
  return {nb::cast<std::uint32_t>(sequence[0]), nb::cast<std::uint32_t>(sequence[1]),
          nb::cast<std::uint32_t>(sequence[2])};
}

template <class Value>
nb::object of_counter(Value value) {
  return nb::cast(value);
}

nb::object of_counter(const std::optional<double>& value) { return value ? nb::object(nb::float_(*value)) : nb::none(); }

bool to_statistics(nb::handle entry, predictor::Statistics& out) {
  const auto dict = nb::cast<nb::dict>(entry);
  return predictor::Statistics::from(nb::cast<std::uint64_t>(dict["count"]), nb::cast<double>(nb::float_(dict["mean_ns"])),
                                     nb::cast<double>(nb::float_(dict["m2"])),
                                     to_histogram(nb::cast<nb::dict>(dict["histogram"])), out);
}

nb::dict to_dict(const predictor::Statistics& statistics) {
  nb::dict histogram;
  for (const auto& [bucket, count] : statistics.histogram()) histogram[nb::str(std::to_string(bucket).c_str())] = count;
  nb::dict dict;
  dict["count"] = statistics.count();
  dict["mean_ns"] = statistics.mean_ns();
  dict["m2"] = statistics.m2_ns2();
  dict["histogram"] = histogram;
  return dict;
}

predictor::Kernel to_kernel(const nb::dict& entry) {
  return {.name = nb::cast<std::string>(entry["name"]),
          .module_hash = from_hex(entry["module"]),
          .grid = three(entry["grid"]),
          .block = three(entry["block"]),
          .shared_bytes = nb::cast<std::uint32_t>(entry["shared_bytes"]),
          .kind = nb::cast<std::uint32_t>(entry["kind"])};
}

nb::list to_list(const std::array<std::uint32_t, 3>& numbers) {
  nb::list list;
  for (const std::uint32_t n : numbers) list.append(n);
  return list;
}

} // namespace

nb::dict merge_statistics(const nb::dict& one, const nb::dict& other) {
  predictor::Statistics both;
  predictor::Statistics theirs;
  to_statistics(one, both);
  to_statistics(other, theirs);
  std::size_t room = predictor::kBuckets;
  both.merge(theirs, room);
  return to_dict(both);
}

predictor::Histogram to_histogram(const nb::dict& histogram) {
  predictor::Histogram result;
  for (const auto& [bucket, count] : histogram) // JSON has text for keys
    result.emplace_back(nb::cast<int>(nb::int_(nb::borrow(bucket))), nb::cast<std::uint64_t>(count));
  std::sort(result.begin(), result.end());
  return result;
}

predictor::Model to_model(const nb::sequence& kernels) {
  predictor::Model model;
  for (const nb::handle item : kernels) {
    const auto entry = nb::cast<nb::dict>(item);
    const predictor::Identity identity = model.describe(to_kernel(entry));
    predictor::Cost cost;
    if (!to_statistics(entry["duration"], cost.duration) || !to_statistics(entry["gap"], cost.gap)) continue;
    if (entry.contains("boundary") && !to_statistics(entry["boundary"], cost.boundary)) continue;
    const auto before = nb::cast<nb::list>(entry["context"]);
    predictor::Context context;
    for (const nb::handle previous : before) context.push(from_hex(previous));
    if (nb::len(before) == 0 || context.full()) model.merge(identity, context, cost);
  }
  return model;
}

nb::list to_profile(const predictor::Model& model) {
  nb::list kernels;
  model.for_each([&](const predictor::Kernel& kernel, const predictor::Context* context, const predictor::Cost& cost) {
    nb::list before;
    if (context != nullptr)
      for (const predictor::Identity identity : context->last) before.append(hex(identity));
    nb::dict entry;
    entry["name"] = kernel.name;
    entry["module"] = hex(kernel.module_hash);
    entry["grid"] = to_list(kernel.grid);
    entry["block"] = to_list(kernel.block);
    entry["shared_bytes"] = kernel.shared_bytes;
    entry["kind"] = kernel.kind;
    entry["context"] = before;
    entry["duration"] = to_dict(cost.duration);
    entry["gap"] = to_dict(cost.gap);
    entry["boundary"] = to_dict(cost.boundary);
    kernels.append(entry);
  });
  return kernels;
}

dispatcher::Timed to_timed(const nb::sequence& kernels) {
  nb::list alone;
  nb::list beside;
  nb::list doubtful;
  std::unordered_set<predictor::Identity> borrowed;
  for (const nb::handle handle : kernels) {
    const auto kernel = nb::cast<nb::dict>(handle);
    (kernel.contains("doubtful") ? doubtful : kernel.contains("beside") ? beside : alone).append(kernel);
    if (kernel.contains("borrowed")) borrowed.insert(identify(to_kernel(kernel)));
  }
  return {.alone = to_model(nb::borrow<nb::sequence>(alone)),
          .beside = to_model(nb::borrow<nb::sequence>(beside)),
          .doubtful = to_model(nb::borrow<nb::sequence>(doubtful)),
          .borrowed = std::move(borrowed)};
}

nb::list to_profile(const dispatcher::Timed& timed) {
  nb::list kernels = to_profile(timed.alone);
  for (const nb::handle kernel : to_profile(timed.beside)) {
    kernel["beside"] = true;
    kernels.append(kernel);
  }
  for (const nb::handle kernel : to_profile(timed.doubtful)) {
    kernel["beside"] = true; // which older readers take for no good time, too
    kernel["doubtful"] = true;
    kernels.append(kernel);
  }
  return kernels;
}

nb::dict to_dict(const tracking::Spent& spent) {
  nb::dict dict;
  dict["elapsed_ns"] = spent.elapsed_ns;
  dict["start_ns"] = spent.start_ns;
  dict["end_ns"] = spent.end_ns;
  dict["pauses_ns"] = spent.pauses_ns;
  dict["waited_ns"] = spent.waited_ns;
  dict["delayed_ns"] = spent.delayed_ns;
  dict["suspended_ns"] = spent.suspended_ns;
  dict["late_ns"] = spent.late_ns;
  dict["unexplained_ns"] = spent.unexplained_ns;
  return dict;
}

nb::dict to_dict(const dispatcher::PlanState& state) {
  nb::dict dict;
  dict["number"] = state.number;
  dict["taken"] = state.taken;
  dict["refused"] = state.refused;
  dict["carried_out"] = state.carried_out;
  dict["skipped"] = state.skipped;
  dict["bytes_per_s"] = state.bytes_per_s;
  return dict;
}

nb::dict to_dict(const tracking::Moves& moves) {
  nb::dict dict;
  dict["goal"] = moves.goal;
  dict["reached"] = moves.reached;
  dict["movable_bytes"] = moves.movable_bytes;
  dict["resident_bytes"] = moves.resident_bytes;
  dict["in_bytes"] = moves.in_bytes;
  dict["out_bytes"] = moves.out_bytes;
  dict["missed_bytes"] = moves.missed_bytes;
  dict["moving_ns"] = moves.moving_ns;
  dict["turns"] = moves.turns;
  dict["failures"] = moves.failures;
  dict["most_bytes"] = moves.most_bytes;
  dict["most_at_ns"] = moves.most_at_ns;
  dict["in_per_s"] = moves.in_per_s;
  dict["out_per_s"] = moves.out_per_s;
  return dict;
}

nb::dict counters() {
  nb::dict adds_by_name;
#define COUNTER(type, name, adds) adds_by_name[#name] = #adds;
#include "tracking/accounting/counters.def"
#undef COUNTER
  return adds_by_name;
}

nb::dict to_dict(const dispatcher::Stats& stats) {
  nb::dict dict;
#define COUNTER(type, name, adds) dict[#name] = of_counter(stats.name);
#include "tracking/accounting/counters.def"
#undef COUNTER
  nb::list held;
  for (const dispatcher::Stats::Held& each : stats.held) {
    const auto reason = policy::kReasonNames[static_cast<std::size_t>(each.sum.hold.reason)];
    nb::dict entry;
    entry["reason"] = std::string(reason);
    entry["by"] = each.sum.named ? nb::object(nb::int_(each.sum.hold.by)) : nb::none();
    entry["kernel"] = each.kernel;
    entry["p90_ns"] = of_counter(each.p90_ns);
    entry["count"] = each.sum.count;
    entry["total_ns"] = each.sum.total_ns;
    entry["cost_ns"] = each.sum.cost_ns;
    held.append(entry);
  }
  dict["held"] = held;
  dict["spent"] = to_dict(stats.spent);
  dict["moves"] = to_dict(stats.moves);
  dict["heard_ns"] = stats.heard_ns;
  return dict;
}

nb::dict to_dict(const dispatcher::Story& story) {
  std::string kernels;
  std::set<std::uint32_t> blamed;
  {
    const nb::gil_scoped_release release; // a journal is long
    for (std::size_t slot = 0; slot < story.kernels.size(); ++slot)
      if (!story.kernels[slot].empty()) kernels += std::to_string(slot) + ' ' + story.kernels[slot] + '\n';
    for (const dispatcher::JournalEvent& event : story.events)
      if (event.kind == dispatcher::JournalKind::wait) blamed.insert(event.by);
  }
  nb::list by;
  for (const std::uint32_t client : blamed) by.append(client);
  nb::dict dict;
  dict["events"] = nb::bytes(story.events.data(), story.events.size() * sizeof(dispatcher::JournalEvent));
  dict["lost"] = story.lost;
  dict["kernels"] = nb::bytes(kernels.data(), kernels.size());
  dict["by"] = by;
  return dict;
}

} // namespace fikit::binding
