// Failing ops and lost devices in manual time. Usage: emu_failure CASE. Exit code 0, or 1 with the line that failed.
#include <memory>

#include "device_model/device_model.hpp"
#include "emu_expect.hpp"

using namespace emu;

namespace {

constexpr int16_t kIllegalAddress = 700;

// Two processes; the first has two streams in context 1 and one in context 2.
struct Device {
  Device() : state(std::make_unique<DeviceState>()), model(*state) {
    DeviceModel::initialise(*state, {.memory_bytes = 1 << 30, .slice_ns = 1'000'000});
    model.advance(1);
    const int first = model.attach(100, 1, 1);
    const int second = model.attach(101, 1, 1);
    failing = model.open_stream(first, 0, 1);
    sibling = model.open_stream(first, 0, 1);
    other_context = model.open_stream(first, 0, 2);
    other_process = model.open_stream(second, 0, 1);
  }
  uint64_t kernel(int stream, int16_t error = 0) { return model.enqueue(stream, {OpKind::kernel, 1000, kNone, 0, error}); }

  std::unique_ptr<DeviceState> state;
  DeviceModel model;
  int failing, sibling, other_context, other_process;
};

int failing_op_drops_its_contexts_work() {
  Device d;
  d.kernel(d.failing);
  d.kernel(d.failing, kIllegalAddress);
  d.kernel(d.failing);
  d.kernel(d.sibling);
  d.kernel(d.other_context);
  d.kernel(d.other_process);
  d.model.advance(1'000'000);
  EXPECT(d.model.error(d.failing) == 700 && d.model.error(d.sibling) == 700);
  EXPECT(d.model.dropped(d.failing) == 1 && d.model.dropped(d.sibling) == 0);
  EXPECT(d.model.done(d.failing, 2) && d.model.done(d.sibling, 0));  // nobody waits for what will never be
  EXPECT(d.model.error(d.other_context) == 0 && d.model.done(d.other_context, 0));
  EXPECT(d.model.error(d.other_process) == 0 && d.model.done(d.other_process, 0));
  // The two kernels that ended, and the failed one's time: nothing of what was dropped.
  EXPECT(d.state->processes[0].kernels == 2 && d.model.busy_ns(0) == 3000);
  EXPECT(!d.model.has_work(0));
  return 0;
}

int slot_of_a_dead_context_serves_a_new_one() {
  Device d;
  d.kernel(d.failing, kIllegalAddress);
  d.model.advance(10'000);
  d.model.close_stream(d.failing);
  const int again = d.model.open_stream(0, 0, 3);
  EXPECT(again == d.failing && d.model.error(again) == 0);
  const uint64_t seq = d.kernel(again);
  d.model.advance(20'000);
  EXPECT(d.model.done(again, seq) && d.model.op(again, seq).end_ns == 11'000);
  return 0;
}

int lost_device_fails_everybody() {
  Device d;
  d.kernel(d.other_process);
  d.kernel(d.failing, kDeviceLost);
  d.model.advance(10'000);
  for (const int stream : {d.failing, d.sibling, d.other_context, d.other_process}) EXPECT(d.model.error(stream) == 46);
  EXPECT(d.model.open_stream(0, 0) == kNone);
  d.model.restore();
  EXPECT(d.model.open_stream(0, 0) != kNone);
  d.model.repair();
  EXPECT(d.state->lost == 0);  // the dead contexts of before do not take it along once more
  return 0;
}

int repair_finishes_the_killing_of_a_context() {
  Device d;
  d.kernel(d.failing);
  d.kernel(d.sibling);
  d.kernel(d.other_context);
  d.state->streams[d.failing].error = kIllegalAddress;  // as far as the killed process came
  d.model.repair();
  EXPECT(d.model.error(d.sibling) == 700 && d.model.done(d.sibling, 0));
  EXPECT(d.model.error(d.other_context) == 0);
  d.model.advance(1'000'000);
  EXPECT(d.model.done(d.other_context, 0) && d.state->processes[0].kernels == 1);
  return 0;
}

constexpr Case kCases[] = {
    CASE(failing_op_drops_its_contexts_work),
    CASE(slot_of_a_dead_context_serves_a_new_one),
    CASE(lost_device_fails_everybody),
    CASE(repair_finishes_the_killing_of_a_context),
};

}  // namespace

int main(int argc, char** argv) { return run_cases(kCases, argc, argv); }
