// Stream memory operations: a stream writes a word when it comes to it, or stands still until a word has a value.
#include <atomic>

#include "libcuda/graph/capture.hpp"

using namespace emu;

namespace {

// Numbers of CUstreamBatchMemOpType.
enum Operation { kWait32 = 1, kWrite32 = 2, kFlush = 3, kWait64 = 4, kWrite64 = 5, kBarrier = 6 };

// Flags of a wait: one comparison, and a wish about remote writes that is always fulfilled here.
enum WaitFlags : unsigned { kAtLeast = 0, kEqual = 1, kAnd = 2, kNor = 3, kComparison = 3, kFlushBefore = 1U << 30 };
constexpr unsigned kNoBarrier = 1;  // flag of a write

template <typename Word>
Word* word_at(CUdeviceptr address) {
  const auto memory = driver().memory().find(address);
  require(memory && address % sizeof(Word) == 0 && address + sizeof(Word) <= memory->base + memory->bytes,
          CUDA_ERROR_INVALID_VALUE);
  return reinterpret_cast<Word*>(address);
}

// Whoever sees the value also sees everything that this process's streams did before it: other processes look, too.
template <typename Word>
Command write(CUdeviceptr address, Word value, unsigned flags) {
  require((flags & ~kNoBarrier) == 0, CUDA_ERROR_INVALID_VALUE);
  Word* word = word_at<Word>(address);
  Command command;
  command.effect = [word, value](const Ran&) { std::atomic_ref(*word).store(value, std::memory_order_release); };
  command.prompt = true;
  return command;
}

template <typename Word>
bool holds(Word found, Word value, unsigned comparison) {
  switch (comparison) {
    case kAtLeast:  // cyclic, so that counters may wrap (CUDA manual)
      return static_cast<std::make_signed_t<Word>>(found - value) >= 0;
    case kEqual:
      return found == value;
    case kAnd:
      return (found & value) != 0;
    default:
      return static_cast<Word>(~(found | value)) != 0;
  }
}

template <typename Word>
Command wait(CUdeviceptr address, Word value, unsigned flags) {
  require((flags & ~(kComparison | kFlushBefore)) == 0, CUDA_ERROR_INVALID_VALUE);
  Word* word = word_at<Word>(address);
  Command command;
  command.kind = OpKind::host;
  command.host_function = [](CUresult) {};
  command.condition = [word, value, comparison = flags & kComparison] {
    return holds(std::atomic_ref(*word).load(std::memory_order_acquire), value, comparison);
  };
  return command;
}

}  // namespace

Command emu::command_of(const CUstreamBatchMemOpParams& op) {
  switch (op.operation) {
    case kWait32:
      return wait(op.address, static_cast<uint32_t>(op.value), op.flags);
    case kWrite32:
      return write(op.address, static_cast<uint32_t>(op.value), op.flags);
    case kWait64:
      return wait(op.address, op.value, op.flags);
    case kWrite64:
      return write(op.address, op.value, op.flags);
    case kFlush:
    case kBarrier:
      return Command{};  // every write here is ordered after what came before it
    default:
      throw Failure{CUDA_ERROR_INVALID_VALUE};
  }
}

namespace {

// All or nothing: a bad entry is found before the first one is queued.
CUresult submit_batch(CUstream handle, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags,
                      const char* call = __builtin_FUNCTION()) {
  return api([&] {
    Stream& stream = resolve(handle);
    Work work = work_of(CUDA_BATCH_MEM_OP_NODE_PARAMS{to_handle<CUcontext>(stream.context), count, operations, flags});
    if (stream.capture != nullptr) {
      record(stream, std::move(work));
    } else {
      for (Command& command : work.commands) submit(stream, std::move(command));
    }
  }, call);
}

}  // namespace

CU_EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) {
  CUstreamBatchMemOpParams write{kWrite32, address, value, flags, {}};
  return submit_batch(stream, 1, &write, 0);
}

CU_EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams write{kWrite64, address, value, flags, {}};
  return submit_batch(stream, 1, &write, 0);
}

CU_EXPORT CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) {
  CUstreamBatchMemOpParams wait{kWait32, address, value, flags, {}};
  return submit_batch(stream, 1, &wait, 0);
}

CU_EXPORT CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams wait{kWait64, address, value, flags, {}};
  return submit_batch(stream, 1, &wait, 0);
}

CU_EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                                         unsigned flags) {
  return submit_batch(stream, count, operations, flags);
}
