/* Streams: to which GPU a launch goes, and which work is known to be complete. */
#ifndef FIKIT_SHIM_STREAM_H
#define FIKIT_SHIM_STREAM_H

#include "base/device.h"

struct fikit_stream {
  _Alignas(64) _Atomic uintptr_t handle; /* 0: free. CU_STREAM_LEGACY and _PER_THREAD as themselves; stream.c: others */
  _Atomic uintptr_t scope;               /* tells default streams apart, by context and thread; 0 for real streams */
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

/* A device is managed from now on: forget the streams that were remembered as unmanaged. */
void fikit_stream_forget_unmanaged(void);

/* A stream is about to go away, if the driver does not refuse that; a context went away; in whatever thread. */
void fikit_stream_destroyed(CUstream stream);
void fikit_stream_context_gone(CUcontext context);

/* No thread queries an event of theirs when this returns (streams/context_end.h). */
void fikit_streams_pass(void);

/* Every launch counted in `issued` of this stream is complete. May report ENTRY_DRAINED. began_ns: when the host began to wait for that; 0: it only
 * queried. */
void fikit_stream_drained(struct fikit_stream *stream, uint64_t issued, int64_t began_ns);

/* The launch_seq up to which every launch will be complete when the device comes to a point put into the stream now. 0: not known, because other
 * streams may have work. */
uint64_t fikit_stream_covers(const struct fikit_stream *stream);

/* False: the entry stands for many streams, each with an order of its own. */
bool fikit_stream_is_one(const struct fikit_stream *stream);

/* Which stream that was, to be asked later: its entry may stand for another one by then, and each thread has a per-thread default stream of its own. */
struct fikit_stream_id {
  const struct fikit_stream *entry; /* NULL: of none */
  unsigned epoch;                   /* when that stream was that */
  uint64_t thread;                  /* whose, of a per-thread default stream; else 0 */
};
struct fikit_stream_id fikit_stream_id(const struct fikit_stream *entry);

/* Is it the stream of `entry`, as the calling thread means it? Work of one goes on in order. False also where nobody knows. */
bool fikit_stream_is(const struct fikit_stream_id *id, const struct fikit_stream *entry);

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

/* The calling thread returns to the program: the shim's own work since the wait ended is not part of the host's time. */
void fikit_wait_over(void);

/* In the child of a fork. */
void fikit_stream_forget_all(void);

#endif
