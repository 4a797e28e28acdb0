// fikit-predict-bench: what a prediction and a lesson cost. Standard input: one launch per line in order,
// "IDENTITY STREAM DURATION_NS GAP_NS" (gap negative: unknown). Behind `python -m bench predict`.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <vector>

#include "model.hpp"

namespace {

std::size_t allocations = 0;

} // namespace

// Not inlined: a compiler that sees malloc and free takes them for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(std::max<std::size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using fikit::kUnknown;
using namespace fikit::predictor;

constexpr int kRounds = 300;
constexpr int kCalls = 256; // per round, between two looks at the clock

struct Launch {
  Identity identity = 0;
  Context context;
  std::int64_t duration_ns = 0;
  std::int64_t gap_ns = kUnknown;
};

std::vector<Launch> read_launches() {
  std::vector<Launch> launches;
  std::map<std::int64_t, Context> streams;
  Launch launch;
  std::int64_t stream = 0;
  while (std::scanf("%" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &launch.identity, &stream, // NOLINT(cert-err34-c)
                    &launch.duration_ns, &launch.gap_ns) == 4) {
    launch.context = streams[stream];
    streams[stream].push(launch.identity);
    launches.push_back(launch);
  }
  return launches;
}

void learn(Model& model, const Launch& launch) {
  model.learn(launch.identity, launch.context, launch.duration_ns);
  if (launch.gap_ns >= 0) model.add_gap(launch.identity, launch.context, launch.gap_ns);
}

// ns per call, one figure per round; goes through the launches again and again.
template <class Call>
std::vector<double> measure(const std::vector<Launch>& launches, Call call) {
  std::vector<double> rounds;
  rounds.reserve(kRounds);
  std::size_t next = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) {
      call(launches[next]);
      if (++next == launches.size()) next = 0;
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    rounds.push_back(spent.count() / kCalls);
  }
  return rounds;
}

void print(const char* name, const std::vector<double>& values) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%.1f", i == 0 ? "" : ", ", values[i]);
  std::printf("], ");
}

int run() {
  const std::vector<Launch> launches = read_launches();
  if (launches.empty()) {
    std::fprintf(stderr, "fikit-predict-bench: couldn't read a launch from standard input\n");
    return 1;
  }
  Model model;
  for (const Launch& launch : launches) learn(model, launch);

  std::int64_t sum = 0; // used below, so that no prediction is optimised away
  const auto predict = [&](const Launch& launch) { sum += model.predict(launch.identity, launch.context).duration_ns; };
  const std::size_t before = allocations;
  const std::vector<double> predict_ns = measure(launches, predict);
  const std::size_t allocated = allocations - before - 1; // one is the list of rounds
  const std::vector<double> learn_ns = measure(launches, [&](const Launch& launch) { learn(model, launch); });

  std::printf("{");
  print("predict_ns", predict_ns);
  print("learn_ns", learn_ns);
  std::printf("\"calls_per_round\": %d, \"predict_allocations\": %zu, \"predicted_ns\": %" PRId64 "}\n", kCalls, allocated,
              sum);
  return 0;
}

} // namespace

int main() {
  try {
    return run();
  } catch (...) {
    std::fputs("fikit-predict-bench: couldn't measure: out of memory\n", stderr);
    return 1;
  }
}
