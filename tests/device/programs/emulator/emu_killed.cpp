// Kills processes that use a device at random moments, most of them inside its lock, and checks after each that the device
// is still right. Usage: emu_killed SEGMENT ROUNDS SEED
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "device_model/clock.hpp"
#include "device_model/liveness.hpp"
#include "device_model/segment.hpp"

using namespace emu;

namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30;

Segment open(const char* name) { return Segment(name, false, DeviceIdentity{"Emulated GPU", {}, 0}, {kMemory, 0, 20'000}); }

// Does everything a client can do, as fast as it can, until it is killed.
[[noreturn]] void victim(const char* name, unsigned seed) {
  Segment segment = open(name);
  RealClock clock;
  std::mt19937 random(seed);
  for (;;) {
    Segment::Lock device(segment);
    const int process = device->attach(getpid(), process_start(getpid()), clock.now_ns());
    int streams[3];
    for (int& stream : streams) stream = device->open_stream(process, 0);
    device->reserve(process, kMemory / 2);
    ChunkRange memory{};
    memory.count = device->map_managed(process, kMemory, memory.first);
    const ChunkRange parts[2] = {{memory.first, memory.count / 2}, {memory.first + 5, 2}};
    for (int i = 0; i < 2000; ++i) {
      device->advance(clock.now_ns());
      const int stream = streams[random() % 3];
      if (device->full(stream) || device->error(stream) != 0) continue;
      const auto error = static_cast<int16_t>(random() % 1000 == 0 ? 700 : 0);  // kills all three streams
      device->enqueue(stream, {.kind = static_cast<OpKind>(random() % 5),
                               .duration_ns = static_cast<int64_t>(random() % 2000),
                               .error = error,
                               .move = static_cast<Move>(random() % 4),
                               .ranges = parts});
      if (i % 500 == 499) device->unmap_managed(process, {memory.first + 3 * (i / 500), 3});
    }
    device->retire(process);
  }
}

#define EXPECT(condition)                                                                 \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      fprintf(stderr, "line %d, round %d: expected %s\n", __LINE__, round, #condition);   \
      return 1;                                                                           \
    }                                                                                     \
  } while (0)

}  // namespace

int main(int, char** argv) {
  const char* name = argv[1];
  std::mt19937 random(static_cast<unsigned>(atoi(argv[3])));
  Segment segment = open(name);
  RealClock clock;
  int mine = 0;
  int stream = 0;
  {
    Segment::Lock device(segment);
    mine = device->attach(getpid(), process_start(getpid()), clock.now_ns());
    stream = device->open_stream(mine, 0);
  }
  for (int round = 0; round < atoi(argv[2]); ++round) {
    const pid_t child = fork();
    if (child == 0) victim(name, random());
    const unsigned wait_us = 200 + random() % 3000;
    usleep(wait_us);
    uint64_t seq = 0;
    {
      Segment::Lock device(segment);
      device->advance(clock.now_ns());
      if (device->full(stream)) return 1;
      seq = device->enqueue(stream, {OpKind::kernel, 5'000});
    }
    usleep(random() % 500);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    Segment::Lock device(segment);
    retire_dead(*device, true);
    DeviceState& state = device->state();
    int processes = 0;
    for (const ProcessState& process : state.processes) processes += process.pid != 0 ? 1 : 0;
    EXPECT(processes == 1 && state.processes[mine].pid == getpid());
    EXPECT(device->memory_used() == 0);
    for (int i = 0; i < state.managed.end; ++i) EXPECT(state.managed.chunks[i].owner == 0);
    EXPECT(state.managed.oldest == kNone && state.managed.newest == kNone);
    device->advance(clock.now_ns() + 10'000'000);
    EXPECT(device->done(stream, seq));
    EXPECT(!device->has_work(mine));
    for (const Engine& engine : state.engines) EXPECT(engine.stream == kNone);
    for (int i = 0; i < kMaxStreams; ++i) {
      const StreamState& other = state.streams[i];
      EXPECT(i == stream || (other.process == kNone && other.done == other.tail));
    }
    EXPECT(state.processes[mine].kernels == static_cast<uint64_t>(round) + 1);
    const int64_t busy = device->busy_ns(mine);
    EXPECT(busy >= (round + 1) * 4'900 && busy <= (round + 1) * 5'000);
  }
  const uint64_t repairs = Segment::Lock(segment)->state().repairs;
  printf("%llu of %s kills hit the lock\n", static_cast<unsigned long long>(repairs), argv[2]);
  if (repairs == 0) return 1;  // then this test has tested nothing
  shm_unlink(("/" + std::string(name)).c_str());
  return 0;
}
