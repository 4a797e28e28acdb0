/* Streams: whose GPU a launch is for, and which work is known complete. */
#ifndef FIKIT_SHIM_STREAM_H
#define FIKIT_SHIM_STREAM_H

#include "base/device.h"

struct fikit_stream {
  _Alignas(64) _Atomic uintptr_t handle; /* 0: free. CU_STREAM_LEGACY and _PER_THREAD as themselves; stream.c: others */
  _Atomic uintptr_t scope;               /* what tells default streams apart: context, and thread; 0 for real streams */
  _Atomic(CUcontext) context;            /* that it was first used in */
  _Atomic(CUcontext) parent;             /* of a green context: the primary one, which is synchronised with it; else the same */
  _Atomic(struct fikit_device *) device; /* NULL: not managed */
  _Atomic uint64_t issued;               /* launches accepted on this stream */
  _Atomic uint64_t drained;              /* of these, known complete */
};

/* A thread's last streams. An entry is valid while its epoch is the global one. */
struct fikit_stream_cache {
  CUstream stream;
  unsigned epoch;
  struct fikit_stream *entry;
};
enum { FIKIT_STREAM_CACHE = 8 };
extern __thread __attribute__((tls_model("initial-exec"))) struct fikit_stream_cache fikit_stream_cache[FIKIT_STREAM_CACHE];
extern _Atomic unsigned fikit_stream_epoch;

/* NULL as the plain and as the per-thread flavour of a call mean it. */
static inline CUstream fikit_legacy(CUstream stream) {
  return stream ? stream : CU_STREAM_LEGACY;
}
static inline CUstream fikit_per_thread(CUstream stream) {
  return stream ? stream : CU_STREAM_PER_THREAD;
}

/* Find the entry of a stream (NULL not allowed), making one if need be. Slow: asks the driver. */
struct fikit_stream *fikit_stream_find(CUstream stream);

static inline struct fikit_stream_cache *fikit_stream_cache_line(CUstream stream) {
  uintptr_t bits = (uintptr_t)stream;
  return &fikit_stream_cache[(bits ^ bits >> 4 ^ bits >> 9) % FIKIT_STREAM_CACHE];
}

static inline struct fikit_stream *fikit_stream_of(CUstream stream) {
  struct fikit_stream_cache *cache = fikit_stream_cache_line(stream);
  if (cache->stream == stream && cache->epoch == atomic_load_explicit(&fikit_stream_epoch, memory_order_relaxed))
    return cache->entry;
  return fikit_stream_find(stream);
}

/* The calling thread's context changed: its default streams mean something else now. */
void fikit_stream_thread_changed(void);

/* A device is managed from now on: what is remembered of streams without one is wrong. */
void fikit_stream_forget_unmanaged(void);

/* A stream or context went away, in whatever thread. */
void fikit_stream_destroyed(CUstream stream);
void fikit_stream_context_gone(CUcontext context);

/* Every launch counted in `issued` of this stream is complete. May report ENTRY_DRAINED. began_ns: since when the host has
 * waited for it; 0: it only asked. */
void fikit_stream_drained(struct fikit_stream *stream, uint64_t issued, int64_t began_ns);

/* A point put behind the stream's work now: every launch up to the returned launch_seq is complete when it is reached.
 * 0: nothing can be said, because work of other streams may be under way. */
uint64_t fikit_stream_covers(const struct fikit_stream *stream);

/* Before and after a synchronisation of the whole context. */
enum { FIKIT_STREAMS = 256 };
struct fikit_drain {
  struct fikit_device *device;
  CUcontext context;
  int64_t began_ns;
  unsigned count; /* of issued */
  uint64_t issued[FIKIT_STREAMS];
};
void fikit_drain_begin(struct fikit_drain *drain, const struct fikit_stream *of_context);
void fikit_drain_end(const struct fikit_drain *drain);

/* The calling thread goes back to the program: what the shim has done since the wait ended was not the host's time. */
void fikit_wait_over(void);

/* In the child of a fork. */
void fikit_stream_forget_all(void);

#endif
