#include "driver_target.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "../../device_model/clock.hpp"
#include "spin_module.hpp"

namespace replay {
namespace {

constexpr unsigned kNonBlocking = 1;                 // CU_STREAM_NON_BLOCKING
constexpr int kNotReady = 600;                      // CUDA_ERROR_NOT_READY
constexpr unsigned kDisableTiming = 2;                // CU_EVENT_DISABLE_TIMING
constexpr unsigned kSharedWithoutAsking = 48 << 10;  // more dynamic shared memory needs...
constexpr int kMostDynamicShared = 8;                // ...CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

int64_t real_now() { return emu::RealClock().now_ns(); }

}  // namespace

DriverTarget::DriverTarget(const Recording& recording, const DriverOptions& options) : options_(options) {
  int device = 0;
  char name[256] = "";
  CUcontext context = nullptr;
  check(cuda_.cuInit(0), "cuInit");
  check(cuda_.cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuda_.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  check(cuda_.cuCtxCreate_v2(&context, 0, device), "cuCtxCreate");
  device_name_ = name;

  kernels_.resize(recording.names.size());
  std::vector<const Event*> first(recording.names.size());  // of the kernel with this name
  for (const Event& event : recording.events) {
    const auto name = static_cast<size_t>(event.name);
    if (event.kind == EventKind::kernel) {
      if (first[name] == nullptr) first[name] = &event;
      kernels_[name].shared_bytes = std::max(kernels_[name].shared_bytes, event.shared_bytes);
    }
    buffer_bytes_ = std::max(buffer_bytes_, bytes_of(event));
    if (event.kind != EventKind::synchronize) streams_[event.stream] = nullptr;
  }
  std::vector<std::string> names(first.size());
  std::vector<std::string> kernels;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] == nullptr) continue;
    names[i] = kernel_name(recording.names[i], i, first[i]->registers);
    kernels.push_back(names[i]);
  }
  CUmodule module = nullptr;
  check(cuda_.cuModuleLoadData(&module, spin_module(kernels).c_str()), "cuModuleLoadData");
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] == nullptr) continue;
    Kernel& kernel = kernels_[i];
    check(cuda_.cuModuleGetFunction(&kernel.function, module, names[i].c_str()), "cuModuleGetFunction");
    if (kernel.shared_bytes <= kSharedWithoutAsking) continue;
    const auto wanted = static_cast<int>(kernel.shared_bytes);
    // A device with less than the recorded one runs it with as much as every device has.
    if (cuda_.cuFuncSetAttribute(kernel.function, kMostDynamicShared, wanted) != 0)
      kernel.shared_bytes = kSharedWithoutAsking;
  }
  for (auto& [id, stream] : streams_) check(cuda_.cuStreamCreate(&stream, kNonBlocking), "cuStreamCreate");
  if (buffer_bytes_ > 0) {
    check(cuda_.cuMemAlloc_v2(&on_device_, 2 * buffer_bytes_), "cuMemAlloc");
    check(cuda_.cuMemHostAlloc(&on_host_, buffer_bytes_, 0), "cuMemHostAlloc");
  }
}

int64_t DriverTarget::now_ns() { return std::llround(static_cast<double>(real_now()) / options_.dilation); }

void DriverTarget::sleep_until(int64_t t_ns) {
  const int64_t t = std::llround(static_cast<double>(t_ns) * options_.dilation);
  if (t > real_now()) emu::RealClock().sleep_until(t);
}

size_t DriverTarget::bytes_of(const Event& event) const {
  if (event.kind == EventKind::kernel || event.kind == EventKind::synchronize) return 0;
  if (options_.ns_per_byte == 0) return std::max<size_t>(1, event.bytes);
  return std::max<size_t>(
      1, static_cast<size_t>(std::llround(static_cast<double>(event.duration_ns) / options_.ns_per_byte)));
}

void DriverTarget::launch(const Event& event, CUstream stream) {
  auto duration_ns = static_cast<unsigned long long>(event.duration_ns);
  void* parameters[] = {&duration_ns};
  const Kernel& kernel = kernels_[static_cast<size_t>(event.name)];
  check(cuda_.cuLaunchKernel(kernel.function, event.grid[0], event.grid[1], event.grid[2], event.block[0],
                             event.block[1], event.block[2], std::min(event.shared_bytes, kernel.shared_bytes), stream,
                             parameters, nullptr),
        "cuLaunchKernel");
}

void DriverTarget::copy(const Event& event, CUstream stream) {
  const size_t bytes = bytes_of(event);
  switch (event.kind) {
    case EventKind::copy_to_device:
      return check(cuda_.cuMemcpyHtoDAsync_v2(on_device_, on_host_, bytes, stream), "cuMemcpyHtoDAsync");
    case EventKind::copy_to_host:
      return check(cuda_.cuMemcpyDtoHAsync_v2(on_host_, on_device_, bytes, stream), "cuMemcpyDtoHAsync");
    case EventKind::set:
      return check(cuda_.cuMemsetD8Async(on_device_, 0, bytes, stream), "cuMemsetD8Async");
    default:
      return check(cuda_.cuMemcpyDtoDAsync_v2(on_device_, on_device_ + buffer_bytes_, bytes, stream),
                   "cuMemcpyDtoDAsync");
  }
}

CUevent DriverTarget::event_after(CUstream stream) {
  CUevent event = nullptr;
  check(cuda_.cuEventCreate(&event, kDisableTiming), "cuEventCreate");
  check(cuda_.cuEventRecord(event, stream), "cuEventRecord");
  return event;
}

void DriverTarget::issue(const Step& step) {
  const CUstream stream = streams_.at(step.event->stream);
  if (options_.span && first_ == nullptr) {
    check(cuda_.cuEventCreate(&first_, 0), "cuEventCreate");
    check(cuda_.cuEventRecord(first_, stream), "cuEventRecord");
  }
  if (step.behind >= 0) check(cuda_.cuStreamWaitEvent(stream, numbered_.at(step.behind), 0), "cuStreamWaitEvent");
  if (step.event->kind == EventKind::kernel)
    launch(*step.event, stream);
  else
    copy(*step.event, stream);
  if (step.number >= 0) {
    const auto [event, first] = numbered_.try_emplace(step.number);  // of an earlier pass: whoever waited for it waits on
    if (first) check(cuda_.cuEventCreate(&event->second, kDisableTiming), "cuEventCreate");
    check(cuda_.cuEventRecord(event->second, stream), "cuEventRecord");
  }
  if (!options_.span || !step.last) return;
  check(cuda_.cuEventCreate(&last_.emplace_back(), 0), "cuEventCreate");
  check(cuda_.cuEventRecord(last_.back(), stream), "cuEventRecord");
}

void DriverTarget::wait_for_stream(int stream) {
  check(cuda_.cuStreamSynchronize(streams_.at(stream)), "cuStreamSynchronize");
}

void DriverTarget::wait_for_all() { check(cuda_.cuCtxSynchronize(), "cuCtxSynchronize"); }

bool DriverTarget::wait_for_event(CUevent event) {
  const int result = cuda_.cuEventQuery(event);
  check(result == kNotReady ? cuda_.cuEventSynchronize(event) : result, "cuEventSynchronize");
  return result == kNotReady;
}

void DriverTarget::wait_for_number(int number) { wait_for_event(numbered_.at(number)); }

void DriverTarget::mark(const Step& step) {
  if (step.event->kind == EventKind::synchronize && step.behind >= 0) {
    numbers_of_marks_[step.mark] = step.behind;
    return;
  }
  for (const auto& [id, stream] : streams_) {
    if (step.event->kind != EventKind::synchronize && id != step.event->stream) continue;
    marks_[step.mark].push_back(event_after(stream));
  }
}

int64_t DriverTarget::wait_for_mark(int mark) {
  bool waited = false;
  if (const auto behind = numbers_of_marks_.find(mark); behind != numbers_of_marks_.end())
    waited = wait_for_event(numbered_.at(behind->second));
  for (const CUevent event : marks_[mark]) {
    waited = wait_for_event(event) || waited;
    check(cuda_.cuEventDestroy_v2(event), "cuEventDestroy");
  }
  marks_.erase(mark);
  return waited ? now_ns() : 0;
}

int64_t DriverTarget::span_ns() {
  float longest_ms = 0;
  for (const CUevent event : last_) {
    float ms = 0;
    check(cuda_.cuEventElapsedTime(&ms, first_, event), "cuEventElapsedTime");
    longest_ms = std::max(longest_ms, ms);
  }
  return std::llround(static_cast<double>(longest_ms) * 1e6);
}

}  // namespace replay
