// emuctl: what the emulated devices of EMUCUDA_NAME have done, and how to make them new.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "../device_model/clock.hpp"
#include "../device_model/liveness.hpp"
#include "../device_model/segment.hpp"

namespace {

using namespace emu;

struct Account {
  ProcessState process;
  bool alive;
};

struct Snapshot {
  DeviceIdentity identity;
  uint64_t memory_bytes, memory_used;
  int64_t busy_ns, now_ns;
  std::vector<Account> processes;
};

Snapshot look(const std::string& name) {
  Segment segment(name);
  Segment::Lock device(segment);
  retire_dead(*device, true);
  device->advance(RealClock().now_ns());
  const DeviceState& state = device->state();
  Snapshot seen{segment.identity(), state.memory_bytes, device->memory_used(), device->busy_ns(kNone), state.time_ns, {}};
  const uint64_t oldest = state.retired > kHistory ? state.retired - kHistory : 0;
  for (uint64_t i = oldest; i < state.retired; ++i) seen.processes.push_back({state.history[i % kHistory], false});
  for (int i = 0; i < kMaxProcesses; ++i) {
    if (state.processes[i].pid == 0) continue;
    ProcessState process = state.processes[i];
    process.busy_ns = device->busy_ns(i);
    seen.processes.push_back({process, true});
  }
  return seen;
}

std::string uuid_text(const uint8_t (&uuid)[16]) {
  char text[64];
  const uint8_t* u = uuid;
  snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  return text;
}

std::string quoted(const char* text) {
  std::string out = "\"";
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') out += '\\';
    if (static_cast<unsigned char>(*text) >= ' ') out += *text;
  }
  return out + "\"";
}

using ull = unsigned long long;

void print_json(const std::vector<Snapshot>& devices) {
  printf("{\"devices\": [");
  for (const Snapshot& d : devices) {
    printf("%s\n  {\"index\": %d, \"name\": %s, \"uuid\": \"%s\", \"memory_bytes\": %llu, \"memory_used_bytes\": %llu, \"busy_ns\": %lld, \"now_ns\": %lld, \"processes\": [", &d == devices.data() ? "" : ",", d.identity.index, quoted(d.identity.name).c_str(), uuid_text(d.identity.uuid).c_str(), ull{d.memory_bytes}, ull{d.memory_used}, static_cast<long long>(d.busy_ns), static_cast<long long>(d.now_ns));
    for (const Account& a : d.processes) {
      const ProcessState& p = a.process;
      printf("%s\n    {\"pid\": %d, \"alive\": %s, \"busy_ns\": %lld, \"kernels\": %llu, \"memory_bytes\": %llu, \"first_ns\": %lld, \"last_ns\": %lld}", &a == d.processes.data() ? "" : ",", p.pid, a.alive ? "true" : "false", static_cast<long long>(p.busy_ns), ull{p.kernels}, ull{p.memory_bytes}, static_cast<long long>(p.first_ns), static_cast<long long>(p.last_ns));
    }
    printf("]}");
  }
  printf("]}\n");
}

void print_table(const std::vector<Snapshot>& devices) {
  constexpr double kMiB = 1 << 20;
  if (devices.empty()) printf("no emulated GPU in use\n");
  for (const Snapshot& d : devices) {
    printf("GPU %d  %s  %s  %.0f of %.0f MiB  busy %.3f s\n", d.identity.index, d.identity.name, uuid_text(d.identity.uuid).c_str(), static_cast<double>(d.memory_used) / kMiB, static_cast<double>(d.memory_bytes) / kMiB, static_cast<double>(d.busy_ns) / 1e9);
    for (const Account& a : d.processes) {
      printf("  %8d %-5s  kernels %8llu  busy %8.3f s  %.0f MiB\n", a.process.pid, a.alive ? "" : "ended", ull{a.process.kernels}, static_cast<double>(a.process.busy_ns) / 1e9, static_cast<double>(a.process.memory_bytes) / kMiB);
    }
  }
}

int usage() {
  fprintf(stderr, "usage: emuctl stats [--json] | emuctl reset     (which devices: EMUCUDA_NAME)\n");
  return 2;
}

int run(const std::vector<std::string>& arguments) {
  const std::vector<std::string> names = existing_segments(set_name());
  if (arguments == std::vector<std::string>{"reset"}) {
    for (const std::string& name : names) shm_unlink(("/" + name).c_str());
    return 0;
  }
  const bool json = arguments == std::vector<std::string>{"stats", "--json"};
  if (!json && arguments != std::vector<std::string>{"stats"}) return usage();
  std::vector<Snapshot> devices;
  for (const std::string& name : names) devices.push_back(look(name));
  (json ? print_json : print_table)(devices);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
