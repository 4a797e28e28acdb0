// emuctl: what the emulated devices of EMUCUDA_NAME have done, what shall go wrong on them, and how to make them new.
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "../device_model/clock.hpp"
#include "../device_model/liveness.hpp"
#include "../device_model/segment.hpp"
#include "../replay/json.hpp"
#include "faults.hpp"
#include "trace.hpp"

namespace {

using namespace emu;

struct Account {
  ProcessState process;
  bool alive;
  std::vector<double> demands;  // of its kernels on the compute engine
};

struct Snapshot {
  DeviceIdentity identity;
  uint64_t memory_bytes, memory_used;
  int64_t busy_ns, now_ns;
  DeviceParameters device;
  int mps_fault;
  std::vector<Account> processes;
};

Snapshot look(Segment& segment) {
  Segment::Lock device(segment);
  retire_dead(*device, true);
  device->advance(RealClock().now_ns());
  const DeviceState& state = device->state();
  Snapshot seen{segment.identity(),     state.memory_bytes, device->memory_used(),
                device->busy_ns(kNone), state.time_ns,      state, state.mps_fault, {}};
  const uint64_t oldest = state.retired > kHistory ? state.retired - kHistory : 0;
  for (uint64_t i = oldest; i < state.retired; ++i) seen.processes.push_back({state.history[i % kHistory], false, {}});
  for (int i = 0; i < kMaxProcesses; ++i) {
    if (state.processes[i].pid == 0) continue;
    ProcessState process = state.processes[i];
    process.busy_ns = device->busy_ns(i);
    process.work_ns = device->work_ns(i);
    seen.processes.push_back({process, true, device->demands(i)});
  }
  return seen;
}

long long ll(int64_t value) { return value; }
unsigned long long ull(uint64_t value) { return value; }
double mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }
double seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

const char* sharing_name(Sharing sharing) {
  return sharing == Sharing::mps ? "mps" : sharing == Sharing::merged ? "merged" : "slices";
}

void print_json(const std::vector<Snapshot>& devices) {
  printf("{\"devices\": [");
  const char* device_comma = "";
  for (const Snapshot& d : devices) {
    printf("%s\n  {\"index\": %d, \"name\": %s, ", device_comma, d.identity.index, quoted(d.identity.name).c_str());
    printf("\"uuid\": \"%s\", ", uuid_text(d.identity).c_str());
    printf("\"memory_bytes\": %llu, \"memory_used_bytes\": %llu, ", ull(d.memory_bytes), ull(d.memory_used));
    printf("\"sharing\": \"%s\", \"slice_ns\": %lld, \"switch_ns\": %lld, ", sharing_name(d.device.sharing),
           ll(d.device.slice_ns), ll(d.device.switch_ns));
    printf("\"mps_fault\": %d, ", d.mps_fault);
    printf("\"busy_ns\": %lld, \"now_ns\": %lld, \"processes\": [", ll(d.busy_ns), ll(d.now_ns));
    const char* comma = "";
    for (const auto& [p, alive, demands] : d.processes) {
      printf("%s\n    {\"pid\": %d, \"alive\": %s, ", comma, p.pid, alive ? "true" : "false");
      printf("\"busy_ns\": %lld, \"kernels\": %llu, ", ll(p.busy_ns), ull(p.kernels));
      printf("\"memory_bytes\": %llu, ", ull(p.memory_bytes + p.resident_bytes));
      printf("\"managed_bytes\": %llu, \"resident_bytes\": %llu, ", ull(p.managed_bytes), ull(p.resident_bytes));
      printf("\"moved_in_bytes\": %llu, \"moved_out_bytes\": %llu, ", ull(p.moved_in_bytes), ull(p.moved_out_bytes));
      printf("\"missed_chunks\": %llu, \"evicted_chunks\": %llu, ", ull(p.missed_chunks), ull(p.evicted_chunks));
      printf("\"missing_ns\": %lld, ", ll(p.missing_ns));
      printf("\"mps\": %s, \"mps_server\": %d, ", p.mps != 0 ? "true" : "false", p.server);
      printf("\"mps_priority\": %d, \"work_ns\": %lld, ", p.priority, ll(p.work_ns));
      printf("\"demands\": [");
      for (size_t i = 0; i < demands.size(); ++i) printf("%s%.6f", i == 0 ? "" : ", ", demands[i]);
      printf("], \"first_ns\": %lld, \"last_ns\": %lld}", ll(p.first_ns), ll(p.last_ns));
      comma = ",";
    }
    printf("]}");
    device_comma = ",";
  }
  printf("]}\n");
}

void print_table(const std::vector<Snapshot>& devices) {
  if (devices.empty()) printf("no emulated GPU in use\n");
  for (const Snapshot& d : devices) {
    printf("GPU %d  %s  %s  ", d.identity.index, d.identity.name, uuid_text(d.identity).c_str());
    printf("%.0f of %.0f MiB  busy %.3f s  ", mib(d.memory_used), mib(d.memory_bytes), seconds(d.busy_ns));
    if (d.device.sharing == Sharing::slices) {
      printf("slices of %lld us, switch %lld us\n", ll(d.device.slice_ns / 1000), ll(d.device.switch_ns / 1000));
    } else {
      printf("%s\n", sharing_name(d.device.sharing));
    }
    if (d.mps_fault != 0) printf("  MPS: a client's fault %d killed all, no new one until they have left\n", d.mps_fault);
    for (const auto& [p, alive, demands] : d.processes) {
      printf("  %8d %-5s  kernels %8llu  ", p.pid, alive ? "" : "ended", ull(p.kernels));
      printf("busy %8.3f s  %.0f MiB", seconds(p.busy_ns), mib(p.memory_bytes + p.resident_bytes));
      if (p.managed_bytes > 0) printf(" (managed %.0f, on the device %.0f)", mib(p.managed_bytes), mib(p.resident_bytes));
      if (p.mps != 0) printf("  MPS%s", p.priority != 0 ? ", below normal" : "");
      for (const double demand : demands) printf("  %.1f %%", 100 * demand);
      printf("\n");
    }
  }
}

int usage() {
  fprintf(stderr,
          "usage: emuctl stats [--json] | reset | terminate PID | --version     (which devices: EMUCUDA_NAME)\n"
          "       emuctl inject RULE | faults [--json] | clear [ID] | lose [DEVICE]\n"
          "       emuctl trace --on [RECORDS] | --off | [--json] [-o FILE]\n"
          "       for example: emuctl inject 'kernel=r_* nth=3 error=700'\n");
  return 2;
}

// What the MPS server does to a client that the control daemon's terminate_client names: its contexts end, wherever it
// has any.
int terminate_client(const std::string& operand) {
  int pid = 0;
  const auto [end, error] = std::from_chars(operand.data(), operand.data() + operand.size(), pid);
  if (error != std::errc() || end != operand.data() + operand.size() || pid <= 0) return -1;
  constexpr int kClientTerminated = 810;  // CUDA_ERROR_MPS_CLIENT_TERMINATED
  bool found = false;
  for (const std::string& name : existing_segments(set_name())) {
    std::optional<Segment> segment = Segment::find(name);
    if (!segment) continue;
    Segment::Lock device(*segment);
    device->advance(RealClock().now_ns());
    for (int i = 0; i < kMaxProcesses; ++i) {
      const ProcessState& process = device->state().processes[i];
      if (process.pid != pid || process.mps == 0) continue;
      device->fail_process(i, kClientTerminated);
      found = true;
    }
  }
  if (!found) fprintf(stderr, "emuctl: couldn't terminate %d: it is no MPS client of an emulated GPU in use\n", pid);
  return found ? 0 : 1;
}

// The commands about injected faults; -1: it is none of them.
int run_faults(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  const std::string operand = arguments.size() == 2 ? arguments[1] : "";
  if (command == "inject" && arguments.size() > 1) return inject_fault({arguments.begin() + 1, arguments.end()});
  if (arguments.size() > 2) return -1;
  if (command == "faults" && (operand.empty() || operand == "--json")) return list_faults(!operand.empty());
  if (command == "clear") return clear_faults(operand);
  if (command == "lose") return lose_devices(operand);
  return -1;
}

int run(const std::vector<std::string>& arguments) {
  if (arguments == std::vector<std::string>{"--version"}) {
    printf("emuctl %s\n", FIKIT_VERSION);
    return 0;
  }
  if (const int code = run_faults(arguments); code >= 0) return code;
  if (!arguments.empty() && arguments[0] == "trace") {
    const int code = trace_devices({arguments.begin() + 1, arguments.end()});
    return code >= 0 ? code : usage();
  }
  if (arguments.size() == 2 && arguments[0] == "terminate") {
    const int code = terminate_client(arguments[1]);
    return code >= 0 ? code : usage();
  }
  const std::vector<std::string> names = existing_segments(set_name());
  if (arguments == std::vector<std::string>{"reset"}) {
    for (const std::string& name : names) shm_unlink(("/" + name).c_str());
    remove_fault_tables();
    return 0;
  }
  const bool json = arguments == std::vector<std::string>{"stats", "--json"};
  if (!json && arguments != std::vector<std::string>{"stats"}) return usage();
  std::vector<Snapshot> devices;
  devices.reserve(names.size());
  for (const std::string& name : names) {
    if (std::optional<Segment> segment = Segment::find(name)) devices.push_back(look(*segment));
  }
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
