// Plays a scenario on the device model in manual time, for comparison with another reckoning of the same.
// Standard input: "device SHARING SLICE_NS SWITCH_NS SLOWDOWN CONCURRENCY MPS_MODEL", then "process MPS PRIORITY WEIGHT",
// "stream PROCESS" and "kernel AT_NS STREAM NS DEMAND WAVES", these in order of time. Standard output: each kernel's end,
// then each process's busy time and device work, all in ns.
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device_model/device_model.hpp"

using namespace emu;

int main() {
  auto state = std::make_unique<DeviceState>();
  DeviceModel model(*state);
  std::vector<int> processes;
  std::vector<int> streams;
  std::vector<std::pair<int, uint64_t>> kernels;
  char word[16];
  while (scanf("%15s", word) == 1) {
    long long a = 0;
    long long b = 0;
    long long c = 0;
    double x = 0;
    int n = 0;
    char model_name[16];
    if (strcmp(word, "device") == 0 && scanf("%15s %lld %lld %lf %d %15s", word, &a, &b, &x, &n, model_name) == 6) {
      const Sharing sharing = strcmp(word, "mps") == 0 ? Sharing::mps : Sharing::slices;
      const MpsModel mps_model = strcmp(model_name, "admission") == 0 ? MpsModel::admission : MpsModel::proportion;
      DeviceModel::initialise(*state, {.slice_ns = a,
                                       .switch_ns = b,
                                       .concurrency = n,
                                       .sharing = sharing,
                                       .mps_model = mps_model,
                                       .overlap_slowdown = x});
      model.advance(1);
    } else if (strcmp(word, "process") == 0 && scanf("%lld %lld %lf", &a, &b, &x) == 3) {
      const Membership membership{.mps = a != 0, .priority = static_cast<int>(b), .weight = x};
      processes.push_back(model.attach(100 + static_cast<int>(processes.size()), 1, 1, membership));
    } else if (strcmp(word, "stream") == 0 && scanf("%lld", &a) == 1) {
      streams.push_back(model.open_stream(processes[a], 0));
    } else if (strcmp(word, "kernel") == 0 && scanf("%lld %d %lld %lf %lld", &a, &n, &b, &x, &c) == 5) {
      model.advance(1 + a);
      const OpRequest request{.kind = OpKind::kernel, .duration_ns = b, .demand = x, .waves = static_cast<uint64_t>(c)};
      kernels.emplace_back(streams[n], model.enqueue(streams[n], request));
    } else {
      return 2;
    }
  }
  model.advance(state->time_ns + 1'000'000'000'000);
  for (const auto& [stream, seq] : kernels) {
    if (!model.done(stream, seq)) return 1;
    printf("%lld\n", static_cast<long long>(model.op(stream, seq).end_ns - 1));
  }
  for (const int process : processes)
    printf("%lld %lld\n", static_cast<long long>(model.busy_ns(process)), static_cast<long long>(model.work_ns(process)));
  return 0;
}
