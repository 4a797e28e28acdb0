/*
 * The launch path. Open gate: no lock, no system call, no allocation, no getenv, no message. The launch itself is the
 * driver's own call in the caller's own thread, before or after which we only write our page.
 */
#include "capture.h"
#include "clock.h"
#include "gate.h"
#include "identity.h"
#include "marker.h"
#include "measure.h"
#include "page.h"
#include "page_mark.h"
#include "stream.h"
#include "symbols.h"

struct launch {
  struct fikit_stream *entry; /* NULL: not managed, or captured; nothing to do afterwards */
  CUstream stream;
  struct fikit_timed *timed;
  int64_t t_ns;
  uint32_t slot;
  struct fikit_pass pass;
};

static inline struct launch begin(CUstream stream, uintptr_t handle, const struct fikit_shape *shape) {
  struct launch launch = {.stream = stream, .pass = {FIKIT_ENTRY_LAUNCH, 0}};
  struct fikit_stream *entry = fikit_stream_of(stream);
  struct fikit_device *device = entry->device;
  if (!device || (fikit_capture_anywhere() && fikit_stream_captures(stream))) {
    if (!device && fikit_attach_due())
      fikit_attach_again(); /* for the launches that follow */
    return launch;
  }
  launch.entry = entry;
  launch.slot = fikit_identity_slot(device, handle, shape);
  bool open = atomic_load_explicit(&device->page->gate, memory_order_acquire) == FIKIT_GATE_OPEN;
  if (__builtin_expect(!open, 0))
    launch.pass = fikit_gate_wait(device, entry, stream, launch.slot);
  if (__builtin_expect(fikit_measure_due(device), 0))
    launch.timed = fikit_measure_begin(device, stream, open);
  launch.t_ns = fikit_now_ns();
  return launch;
}

/* The stream's count comes before launch_seq: see claim() in stream.c. */
static inline CUresult end(const struct launch *launch, CUresult result) {
  if (!launch->entry)
    return result;
  struct fikit_device *device = launch->entry->device;
  bool accepted = result == CUDA_SUCCESS;
  uint64_t seq = 0;
  if (accepted) {
    atomic_fetch_add_explicit(&launch->entry->issued, 1, memory_order_release);
    seq = fikit_page_count(device->page, launch->pass.kind, launch->slot, launch->pass.request_seq, launch->t_ns);
  }
  if (__builtin_expect(launch->timed != NULL, 0))
    fikit_measure_end(device, launch->timed, launch->stream, launch->slot, seq);
  if (__builtin_expect(launch->pass.kind == FIKIT_ENTRY_GRANTED, 0)) {
    if (accepted)
      fikit_marker_set(device, launch->entry, launch->stream, launch->slot, launch->pass.request_seq);
    else
      fikit_marker_skip(device, launch->slot, launch->pass.request_seq);
  } else if (__builtin_expect(fikit_page_mark_wanted(device, launch->slot, seq), 0)) {
    fikit_page_mark_progress(device, launch->entry, launch->stream);
  }
  return result;
}

#define SHAPE(of_kind) {{gx, gy, gz}, {bx, by, bz}, shared_bytes, of_kind}

CUresult cuLaunchKernel(FIKIT_LAUNCH_KERNEL_ARGS, void **extra) {
  struct fikit_shape shape = SHAPE(FIKIT_KIND_KERNEL);
  struct launch launch = begin(fikit_legacy(stream), (uintptr_t)f, &shape);
  return end(&launch, REAL(cuLaunchKernel)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra));
}

CUresult cuLaunchKernel_ptsz(FIKIT_LAUNCH_KERNEL_ARGS, void **extra) {
  struct fikit_shape shape = SHAPE(FIKIT_KIND_KERNEL);
  struct launch launch = begin(fikit_per_thread(stream), (uintptr_t)f, &shape);
  return end(&launch, REAL(cuLaunchKernel_ptsz)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra));
}

CUresult cuLaunchCooperativeKernel(FIKIT_LAUNCH_KERNEL_ARGS) {
  struct fikit_shape shape = SHAPE(FIKIT_KIND_COOPERATIVE);
  struct launch launch = begin(fikit_legacy(stream), (uintptr_t)f, &shape);
  return end(&launch, REAL(cuLaunchCooperativeKernel)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params));
}

CUresult cuLaunchCooperativeKernel_ptsz(FIKIT_LAUNCH_KERNEL_ARGS) {
  struct fikit_shape shape = SHAPE(FIKIT_KIND_COOPERATIVE);
  struct launch launch = begin(fikit_per_thread(stream), (uintptr_t)f, &shape);
  return end(&launch, REAL(cuLaunchCooperativeKernel_ptsz)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params));
}

/* The attributes are read, never copied or edited. */
static struct fikit_shape shape_of(const CUlaunchConfig *config) {
  struct fikit_shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                              {config->blockDimX, config->blockDimY, config->blockDimZ},
                              config->sharedMemBytes,
                              FIKIT_KIND_KERNEL};
  for (unsigned i = 0; config->attrs && i < config->numAttrs; i++)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && config->attrs[i].value.cooperative)
      shape.kind = FIKIT_KIND_COOPERATIVE;
  return shape;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
  if (!config)
    return REAL(cuLaunchKernelEx)(config, f, params, extra);
  struct fikit_shape shape = shape_of(config);
  struct launch launch = begin(fikit_legacy(config->hStream), (uintptr_t)f, &shape);
  return end(&launch, REAL(cuLaunchKernelEx)(config, f, params, extra));
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
  if (!config)
    return REAL(cuLaunchKernelEx_ptsz)(config, f, params, extra);
  struct fikit_shape shape = shape_of(config);
  struct launch launch = begin(fikit_per_thread(config->hStream), (uintptr_t)f, &shape);
  return end(&launch, REAL(cuLaunchKernelEx_ptsz)(config, f, params, extra));
}

/* One unit, however many kernels it holds. */
static const struct fikit_shape graph_shape = {{1, 1, 1}, {1, 1, 1}, 0, FIKIT_KIND_GRAPH};

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  struct launch launch = begin(fikit_legacy(stream), (uintptr_t)exec, &graph_shape);
  return end(&launch, REAL(cuGraphLaunch)(exec, stream));
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  struct launch launch = begin(fikit_per_thread(stream), (uintptr_t)exec, &graph_shape);
  return end(&launch, REAL(cuGraphLaunch_ptsz)(exec, stream));
}

/* The trio of CUDA 3: block shape and shared memory are set on the function before. PyCUDA still launches so. */
static HANDLE_MAP(block_shapes); /* x, y, z in 16 bits each (at most 1024) */
static HANDLE_MAP(shared_sizes);

CUresult cuFuncSetBlockShape(CUfunction f, int x, int y, int z) {
  CUresult result = REAL(cuFuncSetBlockShape)(f, x, y, z);
  if (result == CUDA_SUCCESS)
    handle_map_put(&block_shapes, (uintptr_t)f,
                   (uintptr_t)(x & 0xffff) | (uintptr_t)(y & 0xffff) << 16 | (uintptr_t)(z & 0xffff) << 32, 0);
  return result;
}

CUresult cuFuncSetSharedSize(CUfunction f, unsigned bytes) {
  CUresult result = REAL(cuFuncSetSharedSize)(f, bytes);
  if (result == CUDA_SUCCESS)
    handle_map_put(&shared_sizes, (uintptr_t)f, bytes, 0);
  return result;
}

static struct launch begin_legacy(CUfunction f, int width, int height, CUstream stream) {
  uintptr_t block = handle_map_get(&block_shapes, (uintptr_t)f);
  struct fikit_shape shape = {{(unsigned)width, (unsigned)height, 1},
                              {block & 0xffff, block >> 16 & 0xffff, block >> 32 & 0xffff},
                              (unsigned)handle_map_get(&shared_sizes, (uintptr_t)f),
                              FIKIT_KIND_KERNEL};
  return begin(stream, (uintptr_t)f, &shape);
}

CUresult cuLaunch(CUfunction f) {
  struct launch launch = begin_legacy(f, 1, 1, CU_STREAM_LEGACY);
  return end(&launch, REAL(cuLaunch)(f));
}

CUresult cuLaunchGrid(CUfunction f, int width, int height) {
  struct launch launch = begin_legacy(f, width, height, CU_STREAM_LEGACY);
  return end(&launch, REAL(cuLaunchGrid)(f, width, height));
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  struct launch launch = begin_legacy(f, width, height, fikit_legacy(stream));
  return end(&launch, REAL(cuLaunchGridAsync)(f, width, height, stream));
}
