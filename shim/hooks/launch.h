/* The launch path, inlined into each call that enqueues a kernel or what the device does as one. Open gate: no lock, no system
 * call, no allocation, no getenv, no message. */
#ifndef FIKIT_SHIM_LAUNCH_H
#define FIKIT_SHIM_LAUNCH_H

#include "streams/capture.h"
#include "base/clock.h"
#include "hooks/dependent.h"
#include "hooks/look.h"
#include "gate/gate.h"
#include "identity/identity.h"
#include "gate/marker.h"
#include "timing/measure.h"
#include "base/page.h"
#include "gate/gpu_marker.h"
#include "streams/stream.h"

struct fikit_launch {
  struct fikit_stream *entry; /* NULL: not managed, or captured; nothing to do afterwards */
  CUstream stream;
  struct fikit_timed *timed; /* NULL: nobody looks at it; FIKIT_NOT_TIMED: not for its time */
  int64_t t_ns;
  uint32_t slot;
  bool waits; /* the driver's call returns when the work is over: how long it took says nothing of the work's way to the device */
  struct fikit_pass pass;
};

/* Before the driver's own call. `stream`: NULL not allowed. */
static inline struct fikit_launch fikit_launch_begin(CUstream stream, uintptr_t handle, const struct fikit_shape *shape) {
  struct fikit_launch launch = {.stream = stream, .pass = {FIKIT_ENTRY_LAUNCH, 0}};
  struct fikit_stream *entry = fikit_stream_of(stream);
  struct fikit_device *device = entry->device;
  if (!device || (fikit_capture_anywhere() && fikit_stream_captures(stream))) {
    if (!device && fikit_attach_due())
      fikit_attach_again(); /* for the launches that follow */
    return launch;
  }
  launch.entry = entry;
  launch.slot = fikit_identity_slot(device, handle, shape);
  bool open = fikit_gate_open(device->page);
  if (__builtin_expect(!open, 0))
    launch.pass = fikit_gate_wait(device, entry, stream, launch.slot);
  if (__builtin_expect(fikit_look_due(device), 0) && !fikit_keeps_overlap(device, launch.slot, shape->dependent))
    launch.timed = fikit_look_before(device, entry, stream, open);
  launch.t_ns = fikit_now_ns();
  return launch;
}

/* After it, whole: the parts below. `looked_with`: only if it was looked at. The stream's count comes before launch_seq: see claim() in stream.c. */
__attribute__((always_inline)) static inline CUresult fikit_launch_finish(const struct fikit_launch *launch, CUresult result,
                                                                          const struct fikit_launched *looked_with) {
  if (!launch->entry)
    return result;
  struct fikit_device *device = launch->entry->device;
  bool accepted = result == CUDA_SUCCESS;
  uint64_t seq = 0;
  if (accepted) {
    atomic_fetch_add_explicit(&launch->entry->issued, 1, memory_order_release);
    seq = fikit_page_count(device->page, launch->pass.kind, launch->slot, launch->pass.request_seq, launch->t_ns);
  }
  if (looked_with && launch->timed != FIKIT_NOT_TIMED)
    fikit_touches_timed(device, launch->timed, launch->stream, launch->slot, seq, launch->waits ? fikit_now_ns() : launch->t_ns, looked_with);
  if (__builtin_expect(launch->pass.kind == FIKIT_ENTRY_GRANTED, 0)) {
    if (accepted)
      fikit_marker_set(device, launch->entry, launch->stream, launch->slot, launch->pass.request_seq);
    else
      fikit_marker_skip(device, launch->slot, launch->pass.request_seq);
  } else if (__builtin_expect(fikit_gpu_marker_wanted(device, launch->slot, seq), 0) &&
             !fikit_keeps_overlap(device, launch->slot, false)) {
    fikit_gpu_marker_progress(device, launch->entry, launch->stream);
  }
  if (looked_with)
    fikit_look_after(device, launch->entry, launch->stream, seq);
  return result;
}

__attribute__((noinline, cold)) static CUresult fikit_launch_end_looked_at(const struct fikit_launch *launch, CUresult result,
                                                                       struct fikit_launched launched) {
  return fikit_launch_finish(launch, result, &launched);
}

static inline CUresult fikit_launch_end_unseen(const struct fikit_launch *launch, CUresult result) {
  return fikit_launch_finish(launch, result, NULL);
}

/* Of a kernel, called with these; returns `result`. */
__attribute__((always_inline)) static inline CUresult fikit_launch_end_with(const struct fikit_launch *launch, CUresult result,
                                                                            CUfunction function, void **params, void **extra) {
  if (__builtin_expect(launch->timed != NULL, 0))
    return fikit_launch_end_looked_at(launch, result, (struct fikit_launched){.kernel = {(uintptr_t)function, params, extra}});
  return fikit_launch_end_unseen(launch, result);
}

static inline CUresult fikit_launch_end_graph(const struct fikit_launch *launch, CUresult result, CUgraphExec exec) {
  if (__builtin_expect(launch->timed != NULL, 0))
    return fikit_launch_end_looked_at(launch, result, (struct fikit_launched){.graph = exec});
  return fikit_launch_end_unseen(launch, result);
}

/* Of anything else. */
static inline CUresult fikit_launch_end(const struct fikit_launch *launch, CUresult result) {
  return fikit_launch_end_with(launch, result, NULL, NULL, NULL);
}

#endif
