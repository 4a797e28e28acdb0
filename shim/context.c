/* Contexts: attach to fikitd when one is made, know when the calling thread's current one changes. */
#include "allocation.h"
#include "device.h"
#include "marker.h"
#include "measure.h"
#include "page_mark.h"
#include "stream.h"
#include "symbols.h"

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

/* The shim's events died with their context, and whatever ran in it is over. */
static _Thread_local CUcontext dead;

static void drop_events(struct fikit_device *device) {
  fikit_markers_forget_context(device, dead);
  fikit_page_marks_forget_context(device, dead);
  fikit_measure_forget_context(device, dead);
}

static CUresult destroyed(CUcontext ctx, CUresult result) {
  if (result == CUDA_SUCCESS && ctx) {
    dead = ctx;
    fikit_device_each(drop_events);
    fikit_stream_context_gone(ctx);
    fikit_allocation_context_gone(ctx);
  }
  return result;
}

CUresult cuCtxDestroy(CUcontext ctx) {
  return destroyed(ctx, REAL(cuCtxDestroy)(ctx));
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  return destroyed(ctx, REAL(cuCtxDestroy_v2)(ctx));
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
  return released(device, REAL(cuDevicePrimaryCtxRelease)(device));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return released(device, REAL(cuDevicePrimaryCtxRelease_v2)(device));
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return released(device, REAL(cuDevicePrimaryCtxReset)(device));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return released(device, REAL(cuDevicePrimaryCtxReset_v2)(device));
}
