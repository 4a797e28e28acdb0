#include "streams/stream.h"
#include "streams/capture.h"
#include "streams/context_end.h"
#include "streams/idle.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/page.h"
#include "base/symbols.h"

#include <string.h>

/* Handles that no stream has. ORPHAN: a destroyed stream whose work is not known complete. REST: the entry of a context for all streams that found
 * no room in the table. Only a synchronisation of the whole context drains these two. */
enum { FREE = 0, ORPHAN = 3, REST = 4, OWN_ENTRIES = FIKIT_STREAMS - FIKIT_MAX_DEVICES };

static struct fikit_stream streams[FIKIT_STREAMS];
static struct fikit_stream unmanaged;
static _Atomic unsigned used; /* entries below this were used at some time */
FIKIT_LOCK(changing);
FIKIT_LOCK(looking); /* an outer one: whoever asks the driver about a stream or a context has it, and the end of one passes it */

__thread struct fikit_stream_cache fikit_stream_cache[FIKIT_STREAM_CACHE];
static __thread __attribute__((tls_model("initial-exec"))) unsigned of_current_context; /* a bit for each line of it */
_Atomic unsigned fikit_stream_epoch = 1;

static struct fikit_stream *search(uintptr_t handle, uintptr_t scope, struct fikit_device *device) {
  for (unsigned i = 0; i < atomic_load_explicit(&used, memory_order_acquire); i++)
    if (atomic_load_explicit(&streams[i].handle, memory_order_acquire) == handle && streams[i].scope == scope &&
        streams[i].device == device)
      return &streams[i];
  return NULL;
}

/* Under `changing`. */
static struct fikit_stream *add(uintptr_t handle, uintptr_t scope, CUcontext context, CUcontext parent,
                                struct fikit_device *device, unsigned limit) {
  for (unsigned i = 0; i < limit; i++) {
    struct fikit_stream *stream = &streams[i];
    if (atomic_load_explicit(&stream->handle, memory_order_relaxed) != FREE)
      continue;
    /* Other threads may still read the entry as that of its previous stream. */
    atomic_store_explicit(&stream->scope, scope, memory_order_relaxed);
    atomic_store_explicit(&stream->context, context, memory_order_relaxed);
    atomic_store_explicit(&stream->parent, parent, memory_order_relaxed);
    atomic_store_explicit(&stream->device, device, memory_order_relaxed);
    atomic_store_explicit(&stream->issued, 0, memory_order_relaxed);
    atomic_store_explicit(&stream->drained, 0, memory_order_relaxed);
    atomic_store_explicit(&stream->handle, handle, memory_order_release);
    if (atomic_load_explicit(&used, memory_order_relaxed) <= i)
      atomic_store_explicit(&used, i + 1, memory_order_release);
    return stream;
  }
  return NULL;
}

/* Of any stream but the per-thread one the driver names a green context's primary context. */
static CUcontext parent_of(uintptr_t handle, CUcontext context) {
  const CUstream stream = handle == (uintptr_t)CU_STREAM_PER_THREAD ? CU_STREAM_LEGACY : (CUstream)handle;
  CUcontext regular = NULL;
  void *green = NULL;
  if (fikit_capture_anywhere() || !HAS(cuStreamGetCtx_v2) ||
      REAL(cuStreamGetCtx_v2)(stream, &regular, &green) != CUDA_SUCCESS || !green)
    return context;
  return regular;
}

static struct fikit_stream *search_or_add(uintptr_t handle, uintptr_t scope, CUcontext context,
                                          struct fikit_device *device) {
  struct fikit_stream *stream = search(handle, scope, device);
  if (stream)
    return stream;
  CUcontext parent = parent_of(handle, context);
  if (!fikit_lock(&changing))
    return &unmanaged;
  stream = search(handle, scope, device);
  if (!stream)
    stream = add(handle, scope, context, parent, device, OWN_ENTRIES);
  if (!stream)
    stream = search(REST, (uintptr_t)context, device);
  if (!stream)
    stream = add(REST, (uintptr_t)context, context, parent, device, FIKIT_STREAMS);
  fikit_unlock(&changing);
  return stream ? stream : &unmanaged;
}

/* The device of a stream that may belong to another context than the current one. `known`: the driver says to which. */
static struct fikit_device *device_of_stream(CUstream stream, CUcontext *current, struct fikit_device *of_current, bool *known) {
  CUcontext context = NULL, popped;
  *known = HAS(cuStreamGetCtx) && REAL(cuStreamGetCtx)(stream, &context) == CUDA_SUCCESS;
  if (!*known || context == *current)
    return of_current;
  *known = false;
  if (REAL(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
    return of_current;
  *current = context;
  struct fikit_device *device = fikit_device_current(NULL);
  REAL(cuCtxPopCurrent_v2)(&popped);
  *known = true;
  return device;
}

struct fikit_stream *fikit_stream_find(CUstream stream) {
  unsigned epoch = atomic_load_explicit(&fikit_stream_epoch, memory_order_acquire); /* acquire: what it was raised for is seen below */
  CUcontext context;
  struct fikit_device *device = fikit_device_current(&context);
  uintptr_t scope = 0;
  bool of_context_of_its_own = false;
  if (!context || fikit_locked())
    return &unmanaged; /* the driver will refuse the call, or this is a signal handler; ask again at the next one */
  if (stream == CU_STREAM_LEGACY)
    scope = (uintptr_t)context;
  else if (stream == CU_STREAM_PER_THREAD)
    scope = (uintptr_t)context ^ (uintptr_t)fikit_stream_cache;
  else
    device = device_of_stream(stream, &context, device, &of_context_of_its_own);
  struct fikit_stream *entry = device ? search_or_add((uintptr_t)stream, scope, context, device) : &unmanaged;
  if (device && device->stream_found)
    device->stream_found(device);
  struct fikit_stream_cache *cache = fikit_stream_cache_line(stream);
  *cache = (struct fikit_stream_cache){stream, epoch, entry};
  const unsigned line = 1U << (cache - fikit_stream_cache);
  of_current_context = of_context_of_its_own ? of_current_context & ~line : of_current_context | line;
  return entry;
}

/* A stream that has a context of its own keeps its entry, whatever is current: programs push their context around each call. */
void fikit_stream_thread_changed(void) {
  for (unsigned lines = of_current_context; lines; lines &= lines - 1)
    fikit_stream_cache[__builtin_ctz(lines)].stream = NULL;
  of_current_context = 0;
}

static void new_epoch(void) {
  atomic_fetch_add_explicit(&fikit_stream_epoch, 1, memory_order_release);
}

void fikit_stream_forget_unmanaged(void) {
  new_epoch();
}

/* Under `looking`. */
static void forget_context(CUcontext context) {
  if (!fikit_lock(&changing))
    return;
  for (unsigned i = 0; i < FIKIT_STREAMS; i++)
    if (streams[i].context == context && streams[i].handle != FREE)
      atomic_store_explicit(&streams[i].handle, FREE, memory_order_release);
  fikit_unlock(&changing);
  new_epoch();
}

void fikit_stream_context_gone(CUcontext context) {
  if (!fikit_lock_around(&looking))
    return;
  fikit_context_event_context_gone(context);
  forget_context(context);
  fikit_unlock_around(&looking);
}

void fikit_streams_pass(void) {
  if (fikit_lock_around(&looking))
    fikit_unlock_around(&looking);
}

static void raise_drained(struct fikit_stream *stream, uint64_t issued) {
  uint64_t known = atomic_load_explicit(&stream->drained, memory_order_relaxed);
  while (known < issued && !atomic_compare_exchange_weak(&stream->drained, &known, issued))
    ;
}

/* True if all streams of the device but `except` are known drained. */
static bool drained_but(const struct fikit_device *device, const struct fikit_stream *except) {
  for (unsigned i = 0; i < atomic_load_explicit(&used, memory_order_acquire); i++)
    if (&streams[i] != except && atomic_load_explicit(&streams[i].handle, memory_order_acquire) != FREE &&
        streams[i].device == device &&
        atomic_load_explicit(&streams[i].issued, memory_order_acquire) !=
            atomic_load_explicit(&streams[i].drained, memory_order_acquire))
      return false;
  return true;
}

bool fikit_stream_is_one(const struct fikit_stream *stream) {
  return atomic_load_explicit(&stream->handle, memory_order_relaxed) != REST;
}

static uint64_t this_thread(void) {
  static _Atomic uint64_t threads;
  static __thread uint64_t number;
  if (number == 0)
    number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
  return number;
}

struct fikit_stream_id fikit_stream_id(const struct fikit_stream *entry) {
  const bool of_thread = atomic_load_explicit(&entry->handle, memory_order_relaxed) == (uintptr_t)CU_STREAM_PER_THREAD;
  return (struct fikit_stream_id){entry, atomic_load_explicit(&fikit_stream_epoch, memory_order_acquire), of_thread ? this_thread() : 0};
}

bool fikit_stream_is(const struct fikit_stream_id *id, const struct fikit_stream *entry) {
  const struct fikit_stream_id other = fikit_stream_id(entry);
  return id->entry == entry && id->epoch == other.epoch && id->thread == other.thread && fikit_stream_is_one(entry);
}

/* As in claim(); an entry for many streams has no order. */
uint64_t fikit_stream_covers(const struct fikit_stream *stream) {
  uint64_t seq = atomic_load_explicit(&stream->device->page->launch_seq, memory_order_acquire);
  if (!fikit_stream_is_one(stream) || !drained_but(stream->device, stream))
    return 0;
  return seq;
}

/* The calling thread's newest wait. */
static _Thread_local struct {
  const struct fikit_device *device;
  struct fikit_wait wait;
} waited;

/* As fikit_waits_since() has it. */
static int64_t waits_since(const struct fikit_device *device, int64_t began_ns) {
  uint64_t seq = atomic_load_explicit(&device->page->launch_seq, memory_order_acquire);
  if (waited.device != device)
    waited.wait.seq = UINT64_MAX;
  waited.device = device;
  return fikit_waits_since(&waited.wait, seq, began_ns, began_ns ? 0 : fikit_now_ns());
}

/* Report DRAINED if all streams of the device are drained. launch_seq is read first: every launch in it was counted in its stream's `issued` before,
 * so that a launch not known to be complete keeps its stream undrained. */
static void claim(struct fikit_device *device, int64_t began_ns) {
  struct fikit_page *page = device->page;
  uint64_t seq = atomic_load_explicit(&page->launch_seq, memory_order_acquire);
  uint64_t claimed = atomic_load_explicit(&device->claimed, memory_order_relaxed);
  if (!fikit_drain_is_news(seq, claimed) || !drained_but(device, NULL))
    return;
  if (!atomic_compare_exchange_strong(&device->claimed, &claimed, seq))
    return; /* another thread reports at this moment */
  atomic_store_explicit(&device->marked, seq, memory_order_relaxed);
  int64_t now_ns = fikit_now_ns();
  int64_t last_ns = atomic_load_explicit(&page->last_drained_ns, memory_order_relaxed);
  atomic_store_explicit(&page->last_drained_ns, now_ns, memory_order_relaxed);
  fikit_page_put(page, FIKIT_ENTRY_DRAINED, fikit_waited_ns(began_ns, now_ns), seq, now_ns);
  bool awaited = atomic_load_explicit(&page->gate, memory_order_relaxed) == FIKIT_GATE_CLOSED; /* by another job, perhaps */
  if (awaited || fikit_drain_rings(last_ns, now_ns))
    fikit_doorbell(device);
}

void fikit_wait_over(void) {
  waited.wait.until_ns = fikit_now_ns();
}

/* Other contexts' work on the device goes on, but for a primary context's green ones (CUDA manual, cuCtxSynchronize). */
static bool in_drain(const struct fikit_drain *drain, const struct fikit_stream *stream) {
  return stream->device == drain->device && (stream->context == drain->context || stream->parent == drain->context);
}

/* An entry that is free may soon be another stream's, of which nothing is known. */
static void note_issued(struct fikit_drain *drain) {
  drain->count = atomic_load_explicit(&used, memory_order_acquire);
  for (unsigned i = 0; i < drain->count; i++) {
    const bool counts = atomic_load_explicit(&streams[i].handle, memory_order_acquire) != FREE && in_drain(drain, &streams[i]);
    drain->issued[i] = counts ? atomic_load_explicit(&streams[i].issued, memory_order_acquire) : 0;
  }
}

static void raise_all(const struct fikit_drain *drain) {
  for (unsigned i = 0; i < drain->count; i++)
    if (in_drain(drain, &streams[i]))
      raise_drained(&streams[i], drain->issued[i]);
}

static void free_orphans(const struct fikit_drain *drain) {
  if (!fikit_lock(&changing))
    return;
  for (unsigned i = 0; i < drain->count; i++)
    if (streams[i].handle == ORPHAN && atomic_load(&streams[i].issued) == atomic_load(&streams[i].drained))
      atomic_store_explicit(&streams[i].handle, FREE, memory_order_release);
  fikit_unlock(&changing);
}

void fikit_drain_begin(struct fikit_drain *drain, const struct fikit_stream *of_context) {
  drain->device = of_context->device;
  drain->context = of_context->context;
  drain->began_ns = fikit_now_ns();
  note_issued(drain);
}

void fikit_drain_end(const struct fikit_drain *drain) {
  raise_all(drain);
  claim(drain->device, waits_since(drain->device, drain->began_ns));
  free_orphans(drain);
}

/* ---- work that the program never waits for
 *
 * Libraries begin work in streams of their own and wait for it on the device only, or not at all. Such a stream would never be known drained, and hide the end of
 * every wait for another one. So a wait that leaves others undrained asks the driver about them. What a destroyed stream has left nobody can be asked about: an event
 * is put behind all that the context has, and is looked at then and at the next waits.
 */

enum { MOST_ASKED = 16, PATIENCE_NS = 50000 };
static struct fikit_drain looked; /* what was issued when the event was put */
static unsigned looked_in;        /* the epoch then: in another one an entry may be another stream's */
static int64_t patience_ns = PATIENCE_NS;

static bool is_drained(const struct fikit_stream *stream) {
  return atomic_load_explicit(&stream->issued, memory_order_acquire) == atomic_load_explicit(&stream->drained, memory_order_acquire);
}

/* Whether all that the stream had is over; nothing captures meanwhile, for which the question would be an error. */
static bool is_over(CUstream stream) {
  if (fikit_context_ends() || !fikit_capture_hold())
    return false;
  const CUresult result = REAL(cuStreamQuery)(stream);
  fikit_capture_let_go();
  return result == CUDA_SUCCESS;
}

/* Under `looking`, which a stream's destruction passes: its handle is good. */
static void ask_about(struct fikit_stream *stream, uintptr_t handle) {
  const uint64_t issued = atomic_load_explicit(&stream->issued, memory_order_acquire);
  if (is_over((CUstream)handle))
    raise_drained(stream, issued);
}

/* Under `looking`. */
static void leave(uintptr_t handle) {
  if (!fikit_lock(&changing))
    return;
  for (unsigned i = 0; i < atomic_load_explicit(&used, memory_order_relaxed); i++)
    if (atomic_load_explicit(&streams[i].handle, memory_order_relaxed) == handle)
      atomic_store_explicit(&streams[i].handle, is_drained(&streams[i]) ? FREE : ORPHAN, memory_order_release);
  fikit_unlock(&changing);
  new_epoch();
}

/* Under `looking`. */
static void ask_about_handle(uintptr_t handle) {
  CUcontext current = NULL;
  const struct fikit_device *device = fikit_device_current(&current);
  for (unsigned i = 0; i < atomic_load_explicit(&used, memory_order_acquire); i++)
    if (atomic_load_explicit(&streams[i].handle, memory_order_acquire) == handle && streams[i].device == device && streams[i].context == current &&
        !is_drained(&streams[i]))
      ask_about(&streams[i], handle);
}

/* Default streams are never destroyed. What is known to be complete leaves nothing that has to be known later. */
void fikit_stream_destroyed(CUstream stream) {
  if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !fikit_lock_around(&looking))
    return;
  ask_about_handle((uintptr_t)stream);
  leave((uintptr_t)stream);
  fikit_unlock_around(&looking);
}

/* Under `looking`: false where one is left that cannot be asked about. */
static bool ask_about_all(const struct fikit_device *device, CUcontext context) {
  bool left = false;
  unsigned asked = 0;
  for (unsigned i = 0; i < atomic_load_explicit(&used, memory_order_acquire) && asked < MOST_ASKED; i++) {
    const uintptr_t handle = atomic_load_explicit(&streams[i].handle, memory_order_acquire);
    if (handle == FREE || streams[i].device != device || streams[i].context != context || is_drained(&streams[i]))
      continue;
    left |= handle == ORPHAN;
    if (handle == ORPHAN || handle == REST || handle == (uintptr_t)CU_STREAM_PER_THREAD)
      continue;
    ask_about(&streams[i], handle);
    asked++;
  }
  return !left;
}

/* A context's event says nothing of what a green one of it has. */
static void raise_own(void) {
  if (atomic_load_explicit(&fikit_stream_epoch, memory_order_acquire) != looked_in)
    return;
  for (unsigned i = 0; i < looked.count; i++)
    if (streams[i].device == looked.device && streams[i].context == looked.context)
      raise_drained(&streams[i], looked.issued[i]);
  free_orphans(&looked);
}

/* Where waiting for the event is in vain, it is waited for ever less. */
static bool is_over_soon(CUcontext context) {
  const bool over = fikit_context_event_over(context, patience_ns);
  patience_ns = over ? PATIENCE_NS : patience_ns / 2;
  return over;
}

/* Under `looking`. */
static void look_at_orphans(struct fikit_device *device, CUcontext context) {
  struct fikit_drain now = {.device = device, .context = context};
  if (fikit_context_event_over(context, 0))
    raise_own();
  const unsigned epoch = atomic_load_explicit(&fikit_stream_epoch, memory_order_acquire);
  note_issued(&now);
  if (drained_but(device, NULL) || !fikit_context_event_put(context))
    return;
  looked = now;
  looked_in = epoch;
  if (is_over_soon(context))
    raise_own();
}

static void look_at_others(const struct fikit_stream *stream) {
  CUcontext current = NULL;
  if (drained_but(stream->device, NULL) || fikit_device_current(&current) != stream->device || current != stream->context ||
      !fikit_lock_around(&looking))
    return;
  if (!ask_about_all(stream->device, current))
    look_at_orphans(stream->device, current);
  fikit_unlock_around(&looking);
}

void fikit_stream_drained(struct fikit_stream *stream, uint64_t issued, int64_t began_ns) {
  raise_drained(stream, issued);
  if (began_ns)
    look_at_others(stream);
  claim(stream->device, waits_since(stream->device, began_ns));
}

void fikit_stream_forget_all(void) {
  memset((void *)streams, 0, sizeof streams);
  new_epoch();
}
