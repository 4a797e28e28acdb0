// Texture objects over linear memory: kernels here read nothing, so an object only remembers what it was made of.
#include "libcuda/context/context.hpp"

using namespace emu;

namespace {

struct Texture : Object {
  static constexpr ObjectKind kKind = ObjectKind::texture;
  explicit Texture(const CUDA_RESOURCE_DESC& d) : Object(kKind), resource(d) {}
  const CUDA_RESOURCE_DESC resource;
};

// Numbers of CUresourcetype.
enum ResourceType { kLinear = 2, kPitch2D = 3 };
constexpr size_t kPitchAlignment = 32;  // as device attribute 51 says

void check(const CUDA_RESOURCE_DESC& resource) {
  require(resource.resType == kLinear || resource.resType == kPitch2D, CUDA_ERROR_NOT_SUPPORTED);  // arrays
  require(driver().memory().find(resource.devPtr).has_value(), CUDA_ERROR_INVALID_VALUE);
  if (resource.resType == kPitch2D) {
    require(resource.width > 0 && resource.height > 0 && resource.pitchInBytes % kPitchAlignment == 0,
            CUDA_ERROR_INVALID_VALUE);
  }
}

Texture& texture_of(CUtexObject handle) {
  return from_handle<Texture>(reinterpret_cast<const void*>(handle), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace

CU_EXPORT CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource, const void* texture,
                                     const void*) {
  return api([&] {
    current();
    require(out != nullptr && resource != nullptr && texture != nullptr, CUDA_ERROR_INVALID_VALUE);
    check(*resource);
    *out = reinterpret_cast<CUtexObject>(new Texture(*resource));
  });
}

CU_EXPORT CUresult cuTexObjectDestroy(CUtexObject handle) {
  return api([&] {
    driver();
    delete &texture_of(handle);
  });
}

CU_EXPORT CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = texture_of(handle).resource;
  });
}
