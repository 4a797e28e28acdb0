#include "trace.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

#include "../device_model/clock.hpp"
#include "../device_model/segment.hpp"
#include "../replay/json.hpp"

namespace emu {
namespace {

constexpr uint64_t kRecordsPerLock = 2048;  // copying them keeps the device's users waiting for some 0.1 ms

struct Recording {
  DeviceIdentity identity;
  bool on;
  int64_t now_ns;
  uint64_t made, lost, nameless;
  std::vector<TraceRecord> records;  // in the order of enqueueing
  std::string names;

  std::string name_of(const TraceRecord& record) const {
    return record.name == 0 ? "" : std::string(names.c_str() + record.name - 1);
  }
};

std::vector<Segment> devices() {
  std::vector<Segment> found;
  for (const std::string& name : existing_segments(set_name())) {
    if (std::optional<Segment> segment = Segment::find(name)) found.push_back(std::move(*segment));
  }
  if (found.empty()) throw std::runtime_error("emuctl: there is no emulated GPU in use, see `emuctl stats`");
  return found;
}

Recording read(Segment& segment) {
  Recording seen{segment.identity(), false, 0, 0, 0, 0, {}, {}};
  uint64_t next = 0;
  uint64_t last = 0;
  {
    Segment::Lock device(segment);
    retire_dead(*device, true);
    device->advance(RealClock().now_ns());
    const Trace& trace = *device->trace();
    if (trace.capacity == 0)
      throw std::runtime_error(
          "emuctl: nothing was recorded: turn it on with `emuctl trace --on`, or start programs with EMUCUDA_TRACE=on");
    seen.on = trace.on != 0;
    seen.now_ns = device->state().time_ns;
    seen.made = trace.written - trace.first;
    seen.nameless = trace.nameless;
    last = trace.written;
    next = last - std::min(seen.made, trace.capacity);
  }
  while (next < last) {
    Segment::Lock device(segment);
    Trace& trace = *device->trace();
    for (const uint64_t stop = std::min(last, next + kRecordsPerLock); next < stop; ++next) {
      if (const TraceRecord* record = trace.find(next + 1)) seen.records.push_back(*record);
    }
    seen.names.assign(trace.names, trace.name_bytes);
  }
  seen.lost = seen.made - seen.records.size();
  return seen;
}

const char* kind_name(const TraceRecord& record) {
  switch (static_cast<OpKind>(record.kind)) {
    case OpKind::kernel:
      return "kernel";
    case OpKind::fill:
      return "fill";
    case OpKind::copy_in:
      return "copy_in";
    case OpKind::copy_out:
      return "copy_out";
    case OpKind::marker:
    case OpKind::timed_event:
      return "marker";
    case OpKind::host:
      return "host";
  }
  return "unknown";
}

const char* outcome_name(const TraceRecord& record) {
  constexpr const char* kNames[] = {"pending", "done", "failed", "dropped"};
  return kNames[static_cast<size_t>(record.outcome) % 4];
}

long long ll(int64_t value) { return value; }
unsigned long long ull(uint64_t value) { return value; }
std::string time_or_null(int64_t ns) { return ns == 0 ? "null" : std::to_string(ns); }

void print_details(FILE* out, const Recording& device, const TraceRecord& r) {
  fprintf(out, "\"device\": %d, \"pid\": %d, \"context\": %llu, \"stream\": %llu, \"seq\": %llu, ", device.identity.index,
          r.pid, ull(r.context), ull(r.stream), ull(r.seq));
  fprintf(out, "\"kind\": \"%s\", \"name\": %s, ", kind_name(r), quoted(device.name_of(r)).c_str());
  fprintf(out, "\"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], ", r.grid[0], r.grid[1], r.grid[2], r.block[0],
          r.block[1], r.block[2]);
  fprintf(out, "\"bytes\": %llu, \"enqueue_ns\": %lld, \"start_ns\": %s, \"end_ns\": %s, ", ull(r.bytes),
          ll(r.enqueue_ns), time_or_null(r.start_ns).c_str(), time_or_null(r.end_ns).c_str());
  fprintf(out, "\"work_ns\": %lld, \"demand\": %.6f, \"outcome\": \"%s\", \"error\": %d", ll(r.work_ns),
          static_cast<double>(r.demand), outcome_name(r), r.error);
}

void print_plain(FILE* out, const std::vector<Recording>& all) {
  fprintf(out, "{\"format\": \"emucuda-trace\", \"version\": 1, \"emulated\": true, \"devices\": [");
  const char* comma = "";
  for (const Recording& d : all) {
    fprintf(out, "%s\n {\"index\": %d, \"name\": %s, \"uuid\": \"%s\", \"dilation\": %g, ", comma, d.identity.index,
            quoted(d.identity.name).c_str(), uuid_text(d.identity).c_str(), d.identity.dilation);
    fprintf(out, "\"recording\": %s, \"now_ns\": %lld, \"made\": %llu, \"lost\": %llu, \"nameless\": %llu}",
            d.on ? "true" : "false", ll(d.now_ns), ull(d.made), ull(d.lost), ull(d.nameless));
    comma = ",";
  }
  fprintf(out, "],\n\"events\": [");
  comma = "";
  for (const Recording& device : all) {
    for (const TraceRecord& record : device.records) {
      fprintf(out, "%s\n {", comma);
      print_details(out, device, record);
      fprintf(out, "}");
      comma = ",";
    }
  }
  fprintf(out, "]}\n");
}

// Chrome's trace format: one track per stream, in the process that it belongs to. What never began is left out.
void print_chrome(FILE* out, const std::vector<Recording>& all) {
  fprintf(out, "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"emulated\": \"true\"}, \"traceEvents\": [");
  const char* comma = "";
  for (const Recording& device : all) {
    for (const TraceRecord& r : device.records) {
      if (r.start_ns == 0) continue;
      const std::string name = r.name == 0 ? kind_name(r) : device.name_of(r);
      const int64_t end_ns = r.end_ns == 0 ? device.now_ns : r.end_ns;
      fprintf(out, "%s\n {\"ph\": \"X\", \"pid\": %d, \"tid\": %llu, \"ts\": %.3f, \"dur\": %.3f, ", comma, r.pid,
              ull(r.stream), static_cast<double>(r.start_ns) / 1e3, static_cast<double>(end_ns - r.start_ns) / 1e3);
      fprintf(out, "\"name\": %s, \"cat\": \"%s\", \"args\": {", quoted(name).c_str(), kind_name(r));
      print_details(out, device, r);
      fprintf(out, "}}");
      comma = ",";
    }
  }
  fprintf(out, "]}\n");
}

int write(const std::string& path, bool plain) {
  std::vector<Recording> all;
  for (Segment& segment : devices()) all.push_back(read(segment));
  for (const Recording& d : all) {
    if (d.lost > 0)
      fprintf(stderr, "emuctl: %llu of %llu records of GPU %d are lost, make room with `emuctl trace --on RECORDS`\n",
              ull(d.lost), ull(d.made), d.identity.index);
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> file(path.empty() ? nullptr : fopen(path.c_str(), "we"), [](FILE* f) {
    return f == nullptr ? 0 : fclose(f);
  });
  FILE* out = path.empty() ? stdout : file.get();
  if (out != nullptr) (plain ? print_plain : print_chrome)(out, all);
  if (out == nullptr || fflush(out) != 0 || ferror(out) != 0)
    throw std::runtime_error("emuctl: couldn't write " + (path.empty() ? "the trace" : path) + ": " + strerror(errno));
  return 0;
}

int turn(bool on, const std::string& records) {
  const uint64_t count = on && !records.empty() ? trace_records(records, "emuctl: the trace's size") : kTraceRecords;
  for (Segment& segment : devices()) {
    if (on) {
      segment.trace_on(count);
    } else {
      Segment::Lock(segment)->trace()->turn_off();
    }
  }
  return 0;
}

}  // namespace

int trace_devices(const std::vector<std::string>& words) {
  const bool on = !words.empty() && words[0] == "--on";
  if (on && words.size() <= 2) return turn(true, words.size() == 2 ? words[1] : "");
  if (words == std::vector<std::string>{"--off"}) return turn(false, "");
  std::string path;
  bool plain = false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--json") {
      plain = true;
    } else if (words[i] == "-o" && i + 1 < words.size()) {
      path = words[++i];
    } else {
      return -1;
    }
  }
  return write(path, plain);
}

}  // namespace emu
