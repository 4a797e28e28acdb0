// Many copies or prefetches in one call: as many calls in a row, once the whole batch is known to be right.

#include "libcuda/memory/copy.hpp"
#include "libcuda/memory/managed.hpp"

using namespace emu;

namespace {

// Numbers of CUmemcpySrcAccessOrder and CUmemcpy3DOperandType.
enum SourceAccess { kInStreamOrder = 1, kDuringCall, kAny };
constexpr int kPointer = 1;
constexpr int kArray = 2;

// The manual's word for all of these calls: the legacy default stream takes none.
Stream& batch_stream(CUstream handle) {
  Stream& stream = resolve(handle);
  require(&stream != &stream.context->legacy(), CUDA_ERROR_INVALID_VALUE);
  return stream;
}

// Entry k of a list holds for the operations from firsts[k] to before firsts[k + 1]: which one holds for each.
std::vector<size_t> entries_by_operation(const size_t* firsts, size_t entries, size_t operations) {
  require(firsts != nullptr && entries > 0 && entries <= operations && firsts[0] == 0, CUDA_ERROR_INVALID_VALUE);
  for (size_t k = 1; k < entries; ++k)
    require(firsts[k] > firsts[k - 1] && firsts[k] < operations, CUDA_ERROR_INVALID_VALUE);
  std::vector<size_t> holds(operations);
  for (size_t i = 0, k = 0; i < operations; ++i) {
    if (k + 1 < entries && firsts[k + 1] == i) ++k;
    holds[i] = k;
  }
  return holds;
}

void require_order(int order) { require(order >= kInStreamOrder && order <= kAny, CUDA_ERROR_INVALID_VALUE); }

struct Batch {
  std::vector<CopyBox> copies;
  bool read_during_call = false;

  void submit(Stream& stream) const {
    for (const CopyBox& box : copies) submit_copy(stream, box, false);
    if (read_during_call && stream.capture == nullptr) stream.context->session().wait(*stream.queue);
  }
};

Batch flat_batch(const CUdeviceptr* targets, const CUdeviceptr* sources, const size_t* sizes, size_t count,
                 const CUmemcpyAttributes* attributes, const size_t* firsts, size_t entries) {
  require(targets != nullptr && sources != nullptr && sizes != nullptr && attributes != nullptr && count > 0,
          CUDA_ERROR_INVALID_VALUE);
  const auto holds = entries_by_operation(firsts, entries, count);
  Batch batch;
  for (size_t i = 0; i < count; ++i) {
    const int order = attributes[holds[i]].srcAccessOrder;
    require_order(order);
    require(targets[i] != 0 && sources[i] != 0 && sizes[i] > 0, CUDA_ERROR_INVALID_VALUE);
    batch.read_during_call = batch.read_during_call || order == kDuringCall;
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = sources[i];
    copy.dstDevice = targets[i];
    copy.WidthInBytes = sizes[i];
    copy.Height = 1;
    batch.copies.push_back(box_of(copy));
  }
  return batch;
}

CUdeviceptr checked(const CUmemcpy3DOperand& operand, const CUextent3D& extent) {
  require(operand.type != kArray, CUDA_ERROR_NOT_SUPPORTED);
  const auto& pointer = operand.op.ptr;
  require(operand.type == kPointer && pointer.ptr != 0, CUDA_ERROR_INVALID_VALUE);
  require(pointer.rowLength == 0 || pointer.rowLength >= extent.width, CUDA_ERROR_INVALID_VALUE);
  require(pointer.layerHeight == 0 || pointer.layerHeight >= extent.height, CUDA_ERROR_INVALID_VALUE);
  return pointer.ptr;
}

Batch batch_in_space(size_t count, const CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags) {
  require(operations != nullptr && count > 0 && flags == 0, CUDA_ERROR_INVALID_VALUE);
  Batch batch;
  for (size_t i = 0; i < count; ++i) {
    const CUDA_MEMCPY3D_BATCH_OP& operation = operations[i];
    const CUextent3D& extent = operation.extent;
    require_order(operation.srcAccessOrder);
    require(extent.width > 0 && extent.height > 0 && extent.depth > 0, CUDA_ERROR_INVALID_VALUE);
    batch.read_during_call = batch.read_during_call || operation.srcAccessOrder == kDuringCall;
    CUDA_MEMCPY3D copy{};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = checked(operation.src, extent);
    copy.dstDevice = checked(operation.dst, extent);
    copy.srcPitch = operation.src.op.ptr.rowLength;
    copy.dstPitch = operation.dst.op.ptr.rowLength;
    copy.srcHeight = operation.src.op.ptr.layerHeight;
    copy.dstHeight = operation.dst.op.ptr.layerHeight;
    copy.WidthInBytes = extent.width;
    copy.Height = extent.height;
    copy.Depth = extent.depth;
    batch.copies.push_back(box_of(copy));
  }
  return batch;
}

// Which operation of a batch is wrong is not told: "none in particular".
void no_operation(size_t* which) {
  if (which != nullptr) *which = SIZE_MAX;
}

void prefetch_batch(const CUdeviceptr* pointers, const size_t* sizes, size_t count, const CUmemLocation* locations,
                    const size_t* firsts, size_t entries, unsigned long long flags, CUstream handle) {
  Stream& stream = batch_stream(handle);
  require(pointers != nullptr && sizes != nullptr && locations != nullptr && count > 0 && flags == 0,
          CUDA_ERROR_INVALID_VALUE);
  const auto holds = entries_by_operation(firsts, entries, count);
  for (size_t i = 0; i < count; ++i) require_managed(pointers[i], sizes[i]);
  for (size_t i = 0; i < count; ++i) prefetch_managed(pointers[i], sizes[i], locations[holds[i]], stream);
}

}  // namespace

CU_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
                                         CUmemcpyAttributes* attributes, size_t* firsts, size_t entries,
                                         CUstream stream) {
  return api([&] {
    const Batch batch = flat_batch(targets, sources, sizes, count, attributes, firsts, entries);
    batch.submit(batch_stream(stream));
  });
}

CU_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
                                      CUmemcpyAttributes* attributes, size_t* firsts, size_t entries, size_t* failed,
                                      CUstream stream) {
  return api([&] {
    no_operation(failed);
    const Batch batch = flat_batch(targets, sources, sizes, count, attributes, firsts, entries);
    batch.submit(batch_stream(stream));
  });
}

CU_EXPORT CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, unsigned long long flags,
                                           CUstream stream) {
  return api([&] { batch_in_space(count, operations, flags).submit(batch_stream(stream)); });
}

CU_EXPORT CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* operations, size_t* failed,
                                        unsigned long long flags, CUstream stream) {
  return api([&] {
    no_operation(failed);
    batch_in_space(count, operations, flags).submit(batch_stream(stream));
  });
}

CU_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr* pointers, size_t* sizes, size_t count, CUmemLocation* locations,
                                           size_t* firsts, size_t entries, unsigned long long flags, CUstream stream) {
  return api([&] { prefetch_batch(pointers, sizes, count, locations, firsts, entries, flags, stream); });
}

// What a range held is no longer of use: here it stays, which is one of the values it may have.
CU_EXPORT CUresult cuMemDiscardBatchAsync(CUdeviceptr* pointers, size_t* sizes, size_t count, unsigned long long flags,
                                          CUstream handle) {
  return api([&] {
    Stream& stream = batch_stream(handle);
    require(pointers != nullptr && sizes != nullptr && count > 0 && flags == 0, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; ++i) require_managed(pointers[i], sizes[i]);
    submit(stream, Command{});
  });
}

CU_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* pointers, size_t* sizes, size_t count,
                                                     CUmemLocation* locations, size_t* firsts, size_t entries,
                                                     unsigned long long flags, CUstream stream) {
  return api([&] { prefetch_batch(pointers, sizes, count, locations, firsts, entries, flags, stream); });
}
