// What a handle of the driver API points to. The first word says what it is, so that a wrong or stale handle is an
// error code and a CUkernel can be told from a CUfunction wherever the API accepts both.
#pragma once

#include <cstdint>
#include <utility>

#include "libcuda/driver/driver_api.hpp"

namespace emu {

enum class ObjectKind : uint32_t {
  dead = 0,
  context = 0x43545831,
  stream,
  event,
  module,
  library,
  function,
  kernel,
  graph,
  node,
  graph_exec,
  pool,
  physical,
  user_object,
  linker,
  texture,
};

struct Object {
  explicit Object(ObjectKind k) : kind(k) {}
  ~Object() { kind = ObjectKind::dead; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  volatile ObjectKind kind;  // volatile: the store in the destructor must happen
};

// A call's failure, on its way to the caller as CUresult.
struct Failure {
  CUresult code;
};

inline void require(bool condition, CUresult code) {
  if (!condition) throw Failure{code};
}

// Where a program wants an answer, or a description of its own to be read: null is its mistake, not a crash.
template <typename T>
T& given(T* pointer) {
  require(pointer != nullptr, CUDA_ERROR_INVALID_VALUE);
  return *pointer;
}

template <typename T>
T* try_handle(const void* handle) {
  auto* object = static_cast<T*>(const_cast<void*>(handle));
  const bool plausible = reinterpret_cast<uintptr_t>(handle) > 4096;  // reserved stream handles are 1 and 2
  return plausible && object->kind == T::kKind ? object : nullptr;
}

template <typename T>
T& from_handle(const void* handle, CUresult code = CUDA_ERROR_INVALID_HANDLE) {
  T* object = try_handle<T>(handle);
  require(object != nullptr, code);
  return *object;
}

template <typename Handle>
Handle to_handle(Object* object) {
  return reinterpret_cast<Handle>(object);
}

}  // namespace emu
