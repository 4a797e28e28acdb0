#include "recording.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>

namespace replay {
namespace {

constexpr std::string_view kColumns =
    "type,host_ts,host_dur,dev_start,dev_dur,stream,gx,gy,gz,bx,by,bz,regs,smem,bytes,name_id,tid";
constexpr unsigned kMostRegisters = 255;  // of a thread, on every GPU until now
enum Column { kType, kHost, kCall, kStart, kDuration, kStream, kGrid, kBlock = 9, kRegisters = 12, kShared, kBytes, kName, kThread };
constexpr size_t kFields = kThread + 1;
constexpr int64_t kLongestUs = 4'000'000'000'000'000;  // the time since 1970 is shorter, and differences of ns fit into 64 bits
constexpr int64_t kLongestSpanNs = 1'000'000'000'000'000'000;  // 31 years: sums of times stay far from overflowing

[[noreturn]] void fail(size_t line, const std::string& what) {
  throw std::runtime_error("couldn't use line " + std::to_string(line) + ": " + what);
}

class Line {
 public:
  Line(std::string_view text, size_t number) : number_(number) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      fields_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    if (fields_.size() != kFields) fail("it has " + std::to_string(fields_.size()) + " fields instead of 17");
  }

  [[noreturn]] void fail(const std::string& what) const { replay::fail(number_, what); }
  // "'abc' in column 2 is no ..."
  [[noreturn]] void fail(size_t column, const std::string& what) const {
    fail("'" + std::string(fields_[column]) + "' in column " + std::to_string(column + 1) + " is no " + what);
  }

  std::string_view text(size_t column) const { return fields_[column]; }

  // A whole number; an empty field is `missing`.
  int64_t number(size_t column, int64_t least, int64_t most, int64_t missing) const {
    const std::string_view field = fields_[column];
    if (field.empty()) return missing;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || value < least || value > most)
      fail(column, "whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return value;
  }

  unsigned count(size_t column, unsigned missing) const { return static_cast<unsigned>(number(column, 0, UINT32_MAX, missing)); }

  // Microseconds with up to three decimals that count. Exact, also for the time since 1970.
  int64_t ns(size_t column, bool may_be_negative) const {
    const std::string_view field = fields_[column];
    const size_t point = std::min(field.find('.'), field.size());
    const std::string_view decimals = field.substr(std::min(point + 1, field.size()));
    int64_t us = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + point, us);
    const bool digits = std::all_of(decimals.begin(), decimals.end(), [](char c) { return c >= '0' && c <= '9'; });
    const bool negative = field.starts_with('-');
    if (point == 0 || error != std::errc() || end != field.data() + point || !digits || us > kLongestUs ||
        us < -kLongestUs || (negative && !may_be_negative))
      fail(column, may_be_negative ? "time in us" : "number of us of at least 0");
    int64_t fraction = 0;
    for (size_t i = 0; i < 3; ++i) fraction = fraction * 10 + (i < decimals.size() ? decimals[i] - '0' : 0);
    if (decimals.size() > 3 && decimals[3] >= '5') ++fraction;
    return us * 1000 + (negative ? -fraction : fraction);
  }

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

// What lines refer to by numbers of their own choice, in the order of their first use.
class Numbers {
 public:
  int index_of(int64_t number) { return known_.try_emplace(number, static_cast<int>(known_.size())).first->second; }

 private:
  std::map<int64_t, int> known_;
};

class Reader {
 public:
  void read(std::string_view text, size_t number) {
    if (text.starts_with("#N ")) return read_name(text.substr(3), number);
    if (text.starts_with("\x1f\x8b")) fail(number, "it is compressed, decompress the recording first");
    if (text.starts_with("type,") && text != kColumns)
      fail(number, "the columns are not " + std::string(kColumns));
    if (text.empty() || text[0] == '#' || text == kColumns) return;
    recording_.events.push_back(event_of(Line(text, number)));
  }

  Recording take();

 private:
  void read_name(std::string_view text, size_t number) {
    const size_t space = text.find(' ');
    int64_t id = 0;
    const char* id_end = text.data() + std::min(space, text.size());
    const auto [end, error] = std::from_chars(text.data(), id_end, id);
    if (space == std::string_view::npos || error != std::errc() || end != id_end)
      fail(number, "a name is written #N ID NAME");
    names_[id] = static_cast<int>(recording_.names.size());
    recording_.names.emplace_back(text.substr(space + 1));
  }

  Event event_of(const Line& line) {
    const auto name = names_.find(line.number(kName, INT64_MIN, INT64_MAX, -1));
    if (name == names_.end()) line.fail("no #N line before it gives the name " + std::string(line.text(kName)));
    Event event;
    event.name = name->second;
    event.kind = kind_of(line, recording_.names[static_cast<size_t>(event.name)]);
    event.host_ns = line.ns(kHost, true);
    event.call_ns = line.ns(kCall, false);
    event.thread = threads_.index_of(line.number(kThread, INT64_MIN, INT64_MAX, 0));
    if (event.kind == EventKind::synchronize) return event;
    event.start_ns = line.ns(kStart, true);
    event.duration_ns = line.ns(kDuration, false);
    event.stream = streams_.index_of(line.number(kStream, INT64_MIN, INT64_MAX, 0));
    for (size_t i = 0; i < 3; ++i) {
      event.grid[i] = std::max(1U, line.count(kGrid + i, 1));
      event.block[i] = std::max(1U, line.count(kBlock + i, 1));
    }
    event.registers = static_cast<int>(std::min(line.count(kRegisters, 0), kMostRegisters));
    event.shared_bytes = line.count(kShared, 0);
    event.bytes = static_cast<uint64_t>(line.number(kBytes, 0, INT64_MAX, 0));
    return event;
  }

  void move_origin();

  Recording recording_;
  std::map<int64_t, int> names_;
  Numbers streams_;
  Numbers threads_;
};

bool is_work(const Event& event) { return event.kind != EventKind::synchronize; }

void bound(int64_t ns) {
  if (ns > kLongestSpanNs) throw std::runtime_error("couldn't use the recording: it takes more than 30 years");
}

// Time begins at the first call. Nothing starts on the device before it was called: where it seems so, the two clocks
// of the recording differ, and the device's is put right.
void Reader::move_origin() {
  int64_t origin = std::numeric_limits<int64_t>::max();
  int64_t skew = 0;
  for (const Event& event : recording_.events) {
    origin = std::min(origin, event.host_ns);
    if (is_work(event)) skew = std::min(skew, event.start_ns - event.host_ns);
  }
  bound(-skew);
  int64_t total = 0;
  for (Event& event : recording_.events) {
    const int64_t latency = is_work(event) ? event.start_ns - event.host_ns - skew : 0;
    event.host_ns -= origin;
    bound(event.host_ns);
    bound(latency);
    if (is_work(event)) event.start_ns = event.host_ns + latency;
    bound(event.call_ns);
    bound(event.duration_ns);
    total += event.call_ns + event.duration_ns;
    bound(total);
  }
}

Recording Reader::take() {
  if (std::none_of(recording_.events.begin(), recording_.events.end(), is_work))
    throw std::runtime_error("couldn't use the recording: nothing in it ran on the device");
  move_origin();
  // Host order is what everything else relies on.
  std::stable_sort(recording_.events.begin(), recording_.events.end(),
                   [](const Event& a, const Event& b) { return a.host_ns < b.host_ns; });
  if (recording_.span_ns() == 0) throw std::runtime_error("couldn't use the recording: nothing in it takes time");
  return std::move(recording_);
}

}  // namespace

int64_t Recording::span_ns() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = 0;
  for (const Event& event : events) {
    if (!is_work(event)) continue;
    first = std::min(first, event.start_ns);
    last = std::max(last, event.end_ns());
  }
  return last - first;
}

Recording read_recording(std::istream& in) {
  Reader reader;
  std::string text;
  for (size_t number = 1; std::getline(in, text); ++number) {
    if (!text.empty() && text.back() == '\r') text.pop_back();
    reader.read(text, number);
  }
  return reader.take();
}

}  // namespace replay
