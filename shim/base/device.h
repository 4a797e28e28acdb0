/* One GPU that this process shares under fikitd: its page, its connection, and the shim's own state for it. */
#ifndef FIKIT_SHIM_DEVICE_H
#define FIKIT_SHIM_DEVICE_H

#include "base/clock.h"
#include "base/cuda_abi.h"
#include "base/file_id.h"
#include "fikit_protocol.h"

#include <pthread.h>
#include <stdbool.h>

#define FIKIT_MAX_DEVICES 64
#define FIKIT_PATH_BYTES 108 /* sun_path */
#define FIKIT_IDENTITY_BUCKETS (2 * FIKIT_SLOTS)
#define FIKIT_SIGHTINGS (2 * FIKIT_SLOTS)

/* A kernel identity's bucket: 64-bit key (0 = free) and the slot of the page that counts it. */
struct fikit_identity {
  _Atomic uint64_t key;
  uint32_t slot;
};

struct fikit_description;
struct fikit_markers;
struct fikit_stream;
struct fikit_measure;
struct fikit_gpu_markers;

struct fikit_device {
  struct fikit_page *page;
  struct fikit_plan *plan;          /* behind it; NULL: fikitd is older */
  int socket;            /* to fikitd */
  struct fikit_file_id socket_file; /* the socket that we opened */
  int doorbell;          /* eventfd */
  _Atomic bool gone;     /* fikitd is gone, so that no doorbell is rung */
  _Atomic int64_t looked_ns; /* when that was last checked (monitor.c) */

  _Atomic uint32_t requester; /* 1: a thread holds this process's one request (gate.c) */
  _Atomic uint32_t turn;      /* futex word of the threads that queue behind it */
  _Atomic uint64_t claimed;   /* value of the newest DRAINED */
  _Atomic uint64_t marked;    /* launch_seq of the newest mark or DRAINED */

  _Atomic uint32_t unmarked;  /* grant of the newest granted launch, if no mark stands behind it; 0: one does (marker.c) */
  _Atomic(struct fikit_stream *) unmarked_stream; /* the stream of that launch */

  pthread_mutex_t describing;                               /* guards the three below (identity.c) */
  uint32_t slots;                                           /* slots in use, counting slot 0 */
  uint32_t described;                                       /* slots below this one were sent to fikitd */
  struct fikit_description *descriptions;                   /* by slot: FIKIT_SLOTS */
  struct fikit_identity identities[FIKIT_IDENTITY_BUCKETS]; /* read without the lock */
  _Atomic uint16_t sightings[FIKIT_SIGHTINGS]; /* of kernels without a slot, by their keys (identity.c) */

  struct fikit_memory *memory;      /* of the job: memory.c */
  struct fikit_memory_share *share; /* this process's part of it */
  pthread_mutex_t reserving;        /* one request at a time, where there is a limit */
  uint8_t uuid[16];

  struct fikit_markers *markers;       /* marker.c */
  struct fikit_gpu_markers *gpu_markers; /* gpu_marker.c */
  struct fikit_measure *measure;       /* measure.c; NULL: fikitd wants neither measurement nor samples */
  void (*stream_found)(struct fikit_device *device); /* measure.c: called for a thread's first use of a stream; NULL: not wanted */
  _Atomic uint32_t before_dependent[FIKIT_SLOTS / 32]; /* a bit for each slot: it was followed by a programmatic dependent launch (dependent.h) */
  _Atomic uint64_t look_from;          /* from this launch_seq on launches are looked at: the lower of the next two (look.h) */
  _Atomic uint64_t sample_from;        /* from this one on they may be timed (measure.c) */
  _Atomic uint64_t plan_from;          /* from this one on a step of the plan is due (carry.c) */
};

/* The device behind an ordinal of this process, attached to fikitd at the first call. NULL: not managed. */
struct fikit_device *fikit_device_of(CUdevice ordinal);

/* When the next try to attach an unmanaged device is due; INT64_MAX: none will follow. */
extern _Atomic int64_t fikit_attach_due_ns;

static inline bool fikit_attach_due(void) {
  int64_t due_ns = atomic_load_explicit(&fikit_attach_due_ns, memory_order_relaxed);
  return due_ns != INT64_MAX && fikit_now_ns() >= due_ns;
}

/* Try once more for each unmanaged device, without waiting. */
void fikit_attach_again(void);

/* The device of the calling thread's current context. `context` (may be NULL) receives that context. */
struct fikit_device *fikit_device_current(CUcontext *context);

/* The attached device with this UUID, or NULL. Attaches nothing. */
struct fikit_device *fikit_device_by_uuid(const uint8_t uuid[16]);

/* The job's memory page for a GPU that this process does not use through CUDA; `hello` names the GPU. Asks fikitd now and then, and says
 * nothing where there is none; NULL in unmanaged programs. */
struct fikit_device *fikit_device_watch(const struct fikit_hello *hello);

/* Call `visit` for each attached device. */
void fikit_device_each(void (*visit)(struct fikit_device *device));

/* In the child of a fork: forget every device, without telling fikitd and without touching the parent's page. */
void fikit_device_forget_all(void);

/* fikitd is gone: open the gate for good and wake every waiter. */
void fikit_device_release(struct fikit_device *device);

/* False once the program has closed our descriptors, as programs do that become daemons. Then both numbers may be files of the program's
 * own, and must be neither written nor closed. */
bool fikit_descriptors_ours(const struct fikit_device *device);

/* Tell fikitd's dispatcher to look at our page, if it sleeps. */
void fikit_doorbell(struct fikit_device *device);

#endif
