/* What the program has allocated on its GPUs: counted before the driver is asked, given back when the driver freed it. */
#ifndef FIKIT_SHIM_ALLOCATION_H
#define FIKIT_SHIM_ALLOCATION_H

#include "memory/memory.h"
#include "base/memory_abi.h"

/* Whose memory: the GPU (NULL: not counted), and the context with which it goes away (NULL: with none). */
struct fikit_place {
  struct fikit_device *device;
  CUcontext context;
};

struct fikit_allocation;

/* The calling thread's current context. */
struct fikit_place fikit_place_current(void);

/* After fikit_memory_reserve (_reserve_movable) of `bytes`: the driver made `handle`, or failed (0). */
void fikit_allocated(const struct fikit_place *place, uint64_t bytes, uintptr_t handle);
void fikit_allocated_in_order(const struct fikit_place *place, uint64_t bytes, uintptr_t handle); /* GPU memory in stream order */
void fikit_allocated_movable(const struct fikit_place *place, uint64_t bytes, uintptr_t handle);

/* Before the driver frees `handle`: forget it, since another thread may be given the same one at once; then, with the
 * driver's answer, count it as freed or remember it again. */
struct fikit_allocation *fikit_allocation_take(uintptr_t handle);
CUcontext fikit_allocation_context(const struct fikit_allocation *taken); /* with which it goes away; NULL: with none, or nothing was taken */
void fikit_freed(struct fikit_allocation *taken, uintptr_t handle, bool freed);

/* Allocations of a context that was destroyed are freed. */
void fikit_allocation_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_allocation_forget_all(void);

/* A whole function of the driver that allocates. `handle` is evaluated after a `call` that succeeded. */
#define FIKIT_ALLOCATE(of_place, of_bytes, handle, call)                                         \
  do {                                                                                           \
    const struct fikit_place place_ = (of_place);                                                \
    const uint64_t bytes_ = (of_bytes);                                                          \
    if (!fikit_memory_reserve(place_.device, bytes_))                                            \
      return CUDA_ERROR_OUT_OF_MEMORY;                                                           \
    const CUresult result_ = (call);                                                             \
    fikit_allocated(&place_, bytes_, result_ == CUDA_SUCCESS ? (uintptr_t)(handle) : 0);         \
    return result_;                                                                              \
  } while (0)

/* A whole function of the driver that frees. */
#define FIKIT_FREE(of_handle, call)                                                              \
  do {                                                                                           \
    const uintptr_t handle_ = (uintptr_t)(of_handle);                                            \
    struct fikit_allocation *taken_ = fikit_allocation_take(handle_);                            \
    const CUresult result_ = (call);                                                             \
    fikit_freed(taken_, handle_, result_ == CUDA_SUCCESS);                                       \
    return result_;                                                                              \
  } while (0)

#endif
