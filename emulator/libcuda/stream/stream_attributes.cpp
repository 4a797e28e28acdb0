// What may be set on a stream besides its flags (cuStreamSetAttribute), and memory that belongs to one.
#include <cstring>

#include "libcuda/memory/memory.hpp"
#include "libcuda/memory/memory_api.hpp"

using namespace emu;

namespace {

// Numbers of CUstreamAttrID, with what a stream has before anything is set.
enum StreamAttribute { kAccessPolicy = 1, kSynchronization = 3, kPriority = 8, kMemoryDomainMap = 9, kMemoryDomain = 10 };
constexpr int kAutomatic = 1;         // CU_SYNC_POLICY_AUTO
constexpr int kUnset = -1;            // what a real driver says of a stream that no policy was set for
constexpr int kBlocking = 4;          // the last of CUsynchronizationPolicy
constexpr unsigned char kRemote = 1;  // domain of remote memory by default

using Value = StreamAttributes::mapped_type;

Value default_of(int attribute, const Stream& stream) {
  Value value{};
  switch (attribute) {
    case kSynchronization:
      memcpy(value.data(), &kUnset, sizeof kUnset);
      break;
    case kPriority:
      memcpy(value.data(), &stream.priority, sizeof stream.priority);
      break;
    case kMemoryDomainMap:
      value[1] = kRemote;
      break;
    case kAccessPolicy:
    case kMemoryDomain:
      break;
    default:
      throw Failure{CUDA_ERROR_INVALID_VALUE};
  }
  return value;
}

void set(Stream& stream, int attribute, const Value& value) {
  default_of(attribute, stream);  // throws for unknown ones
  int number = 0;
  memcpy(&number, value.data(), sizeof number);
  require(attribute != kSynchronization || (number >= kAutomatic && number <= kBlocking), CUDA_ERROR_INVALID_VALUE);
  if (stream.attributes == nullptr) stream.attributes = std::make_unique<StreamAttributes>();
  (*stream.attributes)[attribute] = value;
}

}  // namespace

CU_EXPORT CUresult cuStreamGetAttribute(CUstream handle, int attribute, void* out) {
  return api([&] {
    const Stream& stream = resolve(handle);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    Value value = default_of(attribute, stream);
    if (stream.attributes != nullptr) {
      const auto found = stream.attributes->find(attribute);
      if (found != stream.attributes->end()) value = found->second;
    }
    memcpy(out, value.data(), value.size());
  });
}

CU_EXPORT CUresult cuStreamSetAttribute(CUstream handle, int attribute, const void* value) {
  return api([&] {
    Stream& stream = resolve(handle);
    require(value != nullptr, CUDA_ERROR_INVALID_VALUE);
    Value copy;
    memcpy(copy.data(), value, copy.size());
    set(stream, attribute, copy);
  });
}

CU_EXPORT CUresult cuStreamCopyAttributes(CUstream target, CUstream source) {
  return api([&] {
    Stream& to = resolve(target);
    const Stream& from = resolve(source);
    require(to.context == from.context, CUDA_ERROR_INVALID_VALUE);
    to.attributes = from.attributes == nullptr ? nullptr : std::make_unique<StreamAttributes>(*from.attributes);
  });
}

// No green contexts here: no stream belongs to one.
CU_EXPORT CUresult cuStreamGetGreenCtx(CUstream handle, void** out) {
  return api([&] {
    resolve(handle);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = nullptr;
  });
}

CU_EXPORT CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t bytes, unsigned flags) {
  return api([&] {
    Stream& stream = resolve(handle);
    const auto memory = driver().memory().find(pointer);
    require(memory && memory->kind == MemoryKind::managed && memory->base == pointer, CUDA_ERROR_INVALID_VALUE);
    require(bytes == 0 || bytes == memory->bytes, CUDA_ERROR_INVALID_VALUE);
    require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
            CUDA_ERROR_INVALID_VALUE);
    require(flags != CU_MEM_ATTACH_SINGLE || &stream != &stream.context->legacy(), CUDA_ERROR_INVALID_VALUE);
    submit(stream, Command{});
  });
}
