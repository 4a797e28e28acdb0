/* Contexts: attaches to fikitd when one is made, and notices when the calling thread's current one changes. */
#include "streams/mark.h"
#include "streams/context_end.h"
#include "memory/allocation.h"
#include "memory/convert.h"
#include "memory/late_free.h"
#include "streams/capture.h"
#include "base/device.h"
#include "base/handle_map.h"
#include "gate/carry.h"
#include "gate/marker.h"
#include "gate/move.h"
#include "timing/measure.h"
#include "gate/gpu_marker.h"
#include "streams/stream.h"
#include "base/symbols.h"

static CUresult made(CUresult result, CUdevice device) {
  if (result == CUDA_SUCCESS) {
    fikit_stream_thread_changed();
    fikit_device_of(device);
  }
  return result;
}

CUresult cuCtxCreate(CUcontext *ctx, unsigned flags, CUdevice device) {
  return made(REAL(cuCtxCreate)(ctx, flags, device), device);
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device) {
  return made(REAL(cuCtxCreate_v2)(ctx, flags, device), device);
}

CUresult cuCtxCreate_v3(CUcontext *ctx, void *affinity, int count, unsigned flags, CUdevice device) {
  return made(REAL(cuCtxCreate_v3)(ctx, affinity, count, flags, device), device);
}

CUresult cuCtxCreate_v4(CUcontext *ctx, void *params, unsigned flags, CUdevice device) {
  return made(REAL(cuCtxCreate_v4)(ctx, params, flags, device), device);
}

static CUresult switched(CUresult result) {
  fikit_stream_thread_changed();
  return result;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  return switched(REAL(cuCtxSetCurrent)(ctx));
}

CUresult cuCtxPushCurrent(CUcontext ctx) {
  return switched(REAL(cuCtxPushCurrent)(ctx));
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  return switched(REAL(cuCtxPushCurrent_v2)(ctx));
}

CUresult cuCtxPopCurrent(CUcontext *ctx) {
  return switched(REAL(cuCtxPopCurrent)(ctx));
}

CUresult cuCtxPopCurrent_v2(CUcontext *ctx) {
  return switched(REAL(cuCtxPopCurrent_v2)(ctx));
}

static HANDLE_MAP(attached); /* context -> how many attached to it beside its maker */

static void let_pass(struct fikit_device *device) {
  fikit_markers_pass(device);
  fikit_measure_pass(device);
}

/* From here to ended() no thread queries an event. */
static void ending(void) {
  atomic_fetch_add(&fikit_contexts_ending, 1);
  fikit_device_each(let_pass);
  fikit_move_pass();
  fikit_late_frees_pass();
  fikit_streams_pass();
}

static CUresult ended(CUresult result) {
  atomic_fetch_sub(&fikit_contexts_ending, 1);
  return result;
}

/* The shim's events died with their context, and whatever ran in it is over. */
static _Thread_local CUcontext dead;

static void drop_events(struct fikit_device *device) {
  fikit_markers_forget_context(device, dead);
  fikit_gpu_markers_forget_context(device, dead);
  fikit_measure_forget_context(device, dead);
}

static void work_ended(CUcontext ctx) {
  dead = ctx;
  fikit_device_each(drop_events);
  fikit_move_context_gone(ctx);
  fikit_plan_context_gone(ctx);
  fikit_late_frees_work_ended(ctx);
  fikit_marks_context_gone(ctx);
  fikit_capture_context_gone(ctx);
  fikit_stream_context_gone(ctx);
}

static CUresult destroyed(CUcontext ctx, CUresult result) {
  if (result == CUDA_SUCCESS && ctx) {
    work_ended(ctx);
    fikit_allocation_context_gone(ctx);
    fikit_convert_context_gone(ctx);
    fikit_late_frees_context_gone(ctx);
    handle_map_erase(&attached, (uintptr_t)ctx);
  }
  return result;
}

CUresult cuCtxDestroy(CUcontext ctx) {
  ending();
  return ended(destroyed(ctx, REAL(cuCtxDestroy)(ctx)));
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  ending();
  return ended(destroyed(ctx, REAL(cuCtxDestroy_v2)(ctx)));
}

/* Two calls of CUDA 2: a context ends when all attachments to it are gone, the maker's too. */
CUresult cuCtxAttach(CUcontext *ctx, unsigned flags) {
  CUresult result = REAL(cuCtxAttach)(ctx, flags);
  if (result == CUDA_SUCCESS)
    handle_map_put(&attached, (uintptr_t)*ctx, handle_map_get(&attached, (uintptr_t)*ctx) + 1, 0);
  return switched(result);
}

CUresult cuCtxDetach(CUcontext ctx) {
  uintptr_t others = handle_map_get(&attached, (uintptr_t)ctx);
  ending();
  CUresult result = switched(REAL(cuCtxDetach)(ctx));
  if (others == 0)
    destroyed(ctx, result);
  else if (result == CUDA_SUCCESS)
    handle_map_put(&attached, (uintptr_t)ctx, others - 1, 0);
  return ended(result);
}

static _Atomic(CUcontext) primary[FIKIT_MAX_DEVICES];

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
  CUresult result = made(REAL(cuDevicePrimaryCtxRetain)(ctx, device), device);
  if (result == CUDA_SUCCESS && device >= 0 && device < FIKIT_MAX_DEVICES)
    primary[device] = *ctx;
  return result;
}

/* A released primary context lives on while others hold it. */
static CUresult released(CUdevice device, CUresult result) {
  unsigned flags;
  int active = 1;
  if (result != CUDA_SUCCESS || device < 0 || device >= FIKIT_MAX_DEVICES ||
      REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || active)
    return result;
  return destroyed(atomic_exchange(&primary[device], NULL), result);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  ending();
  return ended(released(device, REAL(cuDevicePrimaryCtxRelease)(device)));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ending();
  return ended(released(device, REAL(cuDevicePrimaryCtxRelease_v2)(device)));
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  ending();
  return ended(released(device, REAL(cuDevicePrimaryCtxReset)(device)));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  ending();
  return ended(released(device, REAL(cuDevicePrimaryCtxReset_v2)(device)));
}

/* A part of a device: its streams and events end with it, and its memory is the primary context's. */
CUresult cuGreenCtxDestroy(void *green) {
  CUcontext ctx = NULL;
  if (!HAS(cuCtxFromGreenCtx) || REAL(cuCtxFromGreenCtx)(&ctx, green) != CUDA_SUCCESS)
    ctx = NULL;
  ending();
  const CUresult result = REAL(cuGreenCtxDestroy)(green);
  if (result == CUDA_SUCCESS && ctx)
    work_ended(ctx);
  return ended(result);
}
