// A rhythm as the profile file has it: {"version": 1, "slacks": {position: sketch}, "segments": {path: {name: sketch}}, "runs":
// {place: [launches, time]}, "accesses": accesses.cpp}; a sketch is [count, time, ...]. profiles.profile_rhythm checks what comes from a file.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "convert.hpp"
#include "hex.hpp"

namespace nb = nanobind;

namespace fikit::binding {
namespace {

using predictor::RhythmLearnt;
using predictor::Sketch;
using Segment = RhythmLearnt::Segment;

constexpr std::array<std::pair<const char*, Sketch Segment::*>, 5> kParts{{{"span", &Segment::span},
                                                                           {"tail", &Segment::tail},
                                                                           {"after", &Segment::after},
                                                                           {"next_slack", &Segment::next_slack},
                                                                           {"idle", &Segment::idle}}};

nb::list to_list(const Sketch& sketch) {
  nb::list list;
  list.append(sketch.count);
  for (const std::int64_t ns : sketch.ns) list.append(ns);
  return list;
}

Sketch to_sketch(nb::handle entry) {
  const auto list = nb::cast<nb::list>(entry);
  Sketch sketch;
  for (std::size_t i = 1; i < std::min(nb::len(list), TimeQuantiles::kCount + 1); ++i)
    sketch.ns.push_back(nb::cast<std::int64_t>(list[i]));
  sketch.count = nb::len(list) == 0 ? 0 : nb::cast<std::uint64_t>(list[0]);
  std::sort(sketch.ns.begin(), sketch.ns.end());
  return sketch;
}

predictor::RunsLearnt to_runs(const nb::dict& entries) {
  predictor::RunsLearnt runs;
  for (const auto& [place, entry] : entries) {
    const auto pair = nb::cast<nb::list>(entry);
    if (nb::len(pair) == 2)
      runs.emplace_back(from_hex(place), Launches{.launches = nb::cast<std::uint32_t>(pair[0]),
                                                  .work_ns = nb::cast<std::int64_t>(pair[1])});
  }
  return runs;
}

nb::dict to_dict(const predictor::RunsLearnt& runs) {
  nb::dict entries;
  for (const auto& [place, run] : runs) {
    nb::list pair;
    pair.append(run.launches);
    pair.append(run.work_ns);
    entries[hex(place).c_str()] = pair;
  }
  return entries;
}

} // namespace

forecaster::Learnt to_learnt(const nb::dict& rhythm) {
  forecaster::Learnt learnt;
  if (!rhythm.contains("version") || nb::cast<int>(rhythm["version"]) != RhythmLearnt::kVersion) return learnt;
  for (const auto& [position, sketch] : nb::cast<nb::dict>(rhythm["slacks"]))
    learnt.rhythm.slacks.emplace_back(from_hex(position), to_sketch(sketch));
  for (const auto& [path, parts] : nb::cast<nb::dict>(rhythm["segments"])) {
    Segment segment;
    const auto entry = nb::cast<nb::dict>(parts);
    for (const auto& [name, part] : kParts)
      if (entry.contains(name)) segment.*part = to_sketch(entry[name]);
    learnt.rhythm.segments.emplace_back(from_hex(path), std::move(segment));
  }
  if (rhythm.contains("runs")) learnt.runs = to_runs(nb::cast<nb::dict>(rhythm["runs"]));
  if (rhythm.contains("accesses")) learnt.accesses = to_accesses(nb::cast<nb::dict>(rhythm["accesses"]));
  return learnt;
}

nb::dict to_dict(const forecaster::Learnt& learnt) {
  nb::dict rhythm;
  if (learnt.rhythm.slacks.empty() && learnt.rhythm.segments.empty() && learnt.runs.empty() && learnt.accesses.iterations.empty())
    return rhythm;
  nb::dict slacks;
  for (const auto& [position, sketch] : learnt.rhythm.slacks) slacks[hex(position).c_str()] = to_list(sketch);
  nb::dict segments;
  for (const auto& [path, segment] : learnt.rhythm.segments) {
    nb::dict parts;
    for (const auto& [name, part] : kParts)
      if (!(segment.*part).ns.empty()) parts[name] = to_list(segment.*part);
    segments[hex(path).c_str()] = parts;
  }
  rhythm["version"] = RhythmLearnt::kVersion;
  rhythm["slacks"] = slacks;
  rhythm["segments"] = segments;
  rhythm["runs"] = to_dict(learnt.runs);
  if (!learnt.accesses.iterations.empty()) rhythm["accesses"] = to_dict(learnt.accesses);
  return rhythm;
}

} // namespace fikit::binding
