#include "recording.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>

namespace replay {
namespace {

enum Column { kType, kHost, kCall, kStart, kDuration, kStream, kGrid, kBlock = 9, kShared = 13, kBytes, kName };

class Line {
 public:
  Line(std::string_view text, size_t number) : number_(number) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      fields_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    if (fields_.size() <= kName) fail("it has " + std::to_string(fields_.size()) + " fields instead of 17");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("couldn't use line " + std::to_string(number_) + ": " + what);
  }

  std::string_view text(size_t column) const { return fields_[column]; }

  // An empty field is `missing`.
  double number(size_t column, double missing = 0) const {
    const std::string_view field = fields_[column];
    if (field.empty()) return missing;
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value) || value < 0 ||
        value > 1e12)
      fail("'" + std::string(field) + "' in column " + std::to_string(column + 1) + " is no number of at least 0");
    return value;
  }

  int64_t ns(size_t column) const { return std::llround(number(column) * 1e3); }

 private:
  std::vector<std::string_view> fields_;
  size_t number_;
};

EventKind kind_of(const Line& line, const std::string& name) {
  if (line.text(kType) == "K") return EventKind::kernel;
  if (line.text(kType) == "S") return EventKind::synchronize;
  if (line.text(kType) != "M") line.fail("its type is '" + std::string(line.text(kType)) + "' and not K, M or S");
  if (name.find("set") != std::string::npos) return EventKind::set;
  if (name.find("HtoD") != std::string::npos) return EventKind::copy_to_device;
  if (name.find("DtoH") != std::string::npos) return EventKind::copy_to_host;
  return EventKind::copy_on_device;
}

Event event_of(const Line& line, const std::map<int, int>& names, const Recording& recording) {
  const auto name = names.find(static_cast<int>(line.number(kName)));
  if (name == names.end()) line.fail("no #N line gives the name " + std::string(line.text(kName)));
  Event event;
  event.name = name->second;
  event.kind = kind_of(line, recording.names[static_cast<size_t>(event.name)]);
  event.host_ns = line.ns(kHost);
  event.call_ns = line.ns(kCall);
  if (event.kind == EventKind::synchronize) return event;
  event.start_ns = line.ns(kStart);
  event.duration_ns = line.ns(kDuration);
  event.stream = static_cast<int>(line.number(kStream));
  for (size_t i = 0; i < 3; ++i) {
    event.grid[i] = std::max(1U, static_cast<unsigned>(line.number(kGrid + i, 1)));
    event.block[i] = std::max(1U, static_cast<unsigned>(line.number(kBlock + i, 1)));
  }
  event.shared_bytes = static_cast<unsigned>(line.number(kShared));
  event.bytes = static_cast<uint64_t>(line.number(kBytes));
  return event;
}

}  // namespace

int64_t Recording::span_ns() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = 0;
  for (const Event& event : events) {
    if (event.kind == EventKind::synchronize) continue;
    first = std::min(first, event.start_ns);
    last = std::max(last, event.end_ns());
  }
  return last - first;
}

Recording read_recording(std::istream& in) {
  Recording recording;
  std::map<int, int> names;
  std::string text;
  for (size_t number = 1; std::getline(in, text); ++number) {
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.starts_with("#N ")) {
      const size_t space = text.find(' ', 3);
      int id = 0;
      const auto [end, error] = std::from_chars(text.data() + 3, text.data() + std::min(space, text.size()), id);
      if (space == std::string::npos || error != std::errc() || end != text.data() + space)
        throw std::runtime_error("couldn't use line " + std::to_string(number) + ": a name is written #N ID NAME");
      names[id] = static_cast<int>(recording.names.size());
      recording.names.push_back(text.substr(space + 1));
      continue;
    }
    if (text.empty() || text[0] == '#' || text.starts_with("type,")) continue;
    recording.events.push_back(event_of(Line(text, number), names, recording));
  }
  // Host order is what everything else relies on.
  std::stable_sort(recording.events.begin(), recording.events.end(),
                   [](const Event& a, const Event& b) { return a.host_ns < b.host_ns; });
  const bool work = std::any_of(recording.events.begin(), recording.events.end(),
                                [](const Event& event) { return event.kind != EventKind::synchronize; });
  if (!work) throw std::runtime_error("couldn't use the recording: nothing in it ran on the device");
  return recording;
}

}  // namespace replay
