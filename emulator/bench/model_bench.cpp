// How fast the device model itself is, in manual time and without anything around it: what a simulator can hope for.
// `python -m bench model` runs it.
//
// usage: fikit-model-bench PROCESSES DEPTH KERNELS     JSON: ns of CPU time per kernel, in each round
//
// Every process has one stream and keeps DEPTH kernels of 5 to 100 us in it, as a busy program does.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "../device_model/device_model.hpp"

namespace {

using namespace emu;

constexpr int kRounds = 20;
constexpr int64_t kSliceNs = 2'000'000;

struct Crowd {
  explicit Crowd(int processes) : state(std::make_unique<DeviceState>()), model(*state) {
    DeviceModel::initialise(*state, {.memory_bytes = 1 << 30, .slice_ns = kSliceNs});
    model.advance(1);
    for (int i = 0; i < processes; ++i) streams.push_back(model.open_stream(model.attach(100 + i, 1, 1), 0));
  }

  // A simulator's loop: put in what fits, go to the next moment at which something happens.
  void run(int kernels, uint64_t depth) {
    for (int left = kernels; left > 0;) {
      for (const int stream : streams) {
        while (left > 0 && state->streams[stream].tail - state->streams[stream].done < depth) {
          model.enqueue(stream, {OpKind::kernel, 5'000 + static_cast<int64_t>(random() % 95'000)});
          --left;
        }
      }
      model.advance(model.next_event_ns());
    }
  }

  uint32_t random() { return seed = seed * 1664525 + 1013904223; }

  std::unique_ptr<DeviceState> state;
  DeviceModel model;
  std::vector<int> streams;
  uint32_t seed = 1;
};

// Of this process alone: a busy machine makes it wait, not work.
double cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

int number(const char* text, int most) {
  int value = 0;
  const char* end = text + strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end && value > 0 && value <= most ? value : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int processes = argc == 4 ? number(argv[1], kMaxProcesses) : 0;
  const int depth = argc == 4 ? number(argv[2], static_cast<int>(kRingOps)) : 0;
  const int kernels = argc == 4 ? number(argv[3], 100'000'000) : 0;
  if (processes == 0 || depth == 0 || kernels == 0) {
    fprintf(stderr, "usage: fikit-model-bench PROCESSES DEPTH KERNELS\n");
    return 2;
  }
  Crowd crowd(processes);
  crowd.run(kernels, static_cast<uint64_t>(depth));  // the rings' pages are touched here, not in a measured round
  printf("{\"kernel_ns\": [");
  for (int round = 0; round < kRounds; ++round) {
    const double begin = cpu_ns();
    crowd.run(kernels, static_cast<uint64_t>(depth));
    printf("%s%.2f", round == 0 ? "" : ", ", (cpu_ns() - begin) / kernels);
  }
  puts("]}");
  return 0;
}
