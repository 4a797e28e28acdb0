/* The shim's events behind allocations (streams/mark.h), with a driver of this program's own that counts what it is asked and refuses what it is told to. */
#include "streams/mark.h"
#include "base/symbols.h"
#include "streams/capture.h"
#include "streams/context_end.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARKS = 1024, REFUSED = 2 };

/* ---- the driver */

void *fikit_slots[FIKIT_SYMBOLS];
static CUcontext current;
static struct {
  CUcontext context;
  CUstream recorded_in; /* NULL: in none yet */
  bool passed;
} events[4 * MARKS];
static unsigned created, queried; /* events and how often one was asked for */
static bool no_events, no_records;
static CUstream waits;            /* for the event that was named last */
static CUevent waited_for;

static size_t index_of(CUevent event) {
  return (size_t)(uintptr_t)event - 1;
}

static CUresult current_context(CUcontext *context) {
  *context = current;
  return CUDA_SUCCESS;
}

static CUresult create(CUevent *event, unsigned flags) {
  (void)flags;
  if (no_events)
    return REFUSED;
  events[created].context = current;
  *event = (CUevent)(uintptr_t)++created;
  return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream) {
  CHECK(events[index_of(event)].context == current);
  if (no_records)
    return REFUSED;
  events[index_of(event)].recorded_in = stream;
  events[index_of(event)].passed = false;
  return CUDA_SUCCESS;
}

static CUresult query(CUevent event) {
  queried++;
  return events[index_of(event)].passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult wait_for(CUstream stream, CUevent event, unsigned flags) {
  (void)flags;
  waits = stream;
  waited_for = event;
  return CUDA_SUCCESS;
}

/* ---- what the shim knows of streams and captures */

__thread __attribute__((tls_model("initial-exec"))) struct fikit_stream_cache fikit_stream_cache[FIKIT_STREAM_CACHE];
_Atomic unsigned fikit_stream_epoch = 1;
_Atomic int fikit_captures;
static struct fikit_stream streams[3];

struct fikit_stream *fikit_stream_find(CUstream stream) {
  return &streams[(uintptr_t)stream - 1];
}

struct fikit_stream_id fikit_stream_id(const struct fikit_stream *entry) {
  return (struct fikit_stream_id){entry, fikit_stream_epoch, 0};
}

bool fikit_stream_is(const struct fikit_stream_id *id, const struct fikit_stream *entry) {
  return id->entry == entry && id->epoch == fikit_stream_epoch;
}

int fikit_capture_relax(void) {
  return CU_STREAM_CAPTURE_MODE_RELAXED;
}

void fikit_capture_restore(int mode) {
  CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* ---- what is asked of marks */

static const CUcontext one = (CUcontext)0x100, other = (CUcontext)0x200;
static const CUstream a = (CUstream)1, b = (CUstream)2;

static void all_pass(void) {
  for (unsigned i = 0; i < created; i++)
    events[i].passed = true;
}

/* Work that is put into a stream once a number was read comes behind marks in that stream up to it, and is known to behind no other. */
static void order(void) {
  const uint64_t before = fikit_mark_newest();
  struct fikit_mark *first = fikit_mark(a);
  const uint64_t between = fikit_mark_newest();
  struct fikit_mark *second = fikit_mark(a);
  CHECK(first && second && between > before && fikit_mark_newest() > between);
  CHECK(events[0].recorded_in == a && events[1].recorded_in == a);
  CHECK(fikit_mark_is_before(first, &streams[0], between));
  CHECK(!fikit_mark_is_before(first, &streams[0], before));
  CHECK(!fikit_mark_is_before(second, &streams[0], between));
  CHECK(!fikit_mark_is_before(first, &streams[1], between));
  fikit_stream_epoch++; /* the handle may be another stream's now */
  CHECK(!fikit_mark_is_before(first, &streams[0], between));
  CHECK(fikit_mark_awaited(second, b) && waits == b && events[index_of(waited_for)].recorded_in == a);
}

/* An event is used again once its stream has come to it or nobody asks, in its own context alone. */
static void again(void) {
  struct fikit_mark *mark = fikit_mark(a);
  CHECK(!fikit_mark_passed(mark));
  struct fikit_mark *second = fikit_mark(b);
  CHECK(created == 2);
  all_pass();
  CHECK(fikit_mark_passed(mark));
  mark = fikit_mark(b);
  CHECK(mark && created == 2 && !fikit_mark_passed(mark));
  fikit_mark_dropped(second);
  current = other;
  CHECK(fikit_mark(a) && created == 3);
  current = one;
  CHECK(fikit_mark(a) && created == 3);
}

/* There is a bounded number; what the driver refuses uses none up. */
static void refused(void) {
  struct fikit_mark *last = NULL;
  no_events = true;
  for (int i = 0; i < 2 * MARKS; i++)
    CHECK(!fikit_mark(a));
  no_events = false;
  no_records = true;
  const uint64_t newest = fikit_mark_newest();
  for (int i = 0; i < 2 * MARKS; i++)
    CHECK(!fikit_mark(a));
  CHECK(fikit_mark_newest() == newest && created == 1);
  no_records = false;
  for (int i = 0; i < MARKS; i++)
    CHECK((last = fikit_mark(a)));
  CHECK(!fikit_mark(a));
  fikit_mark_dropped(last);
  CHECK(fikit_mark(a) && !fikit_mark(a) && created == MARKS);
}

/* A mark's event goes with its context, and all work before it is over; while one may go no event is asked. */
static void ends(void) {
  struct fikit_mark *mark = fikit_mark(a);
  current = other;
  struct fikit_mark *stays = fikit_mark(b);
  fikit_contexts_ending = 1;
  all_pass();
  CHECK(!fikit_mark_passed(mark) && !fikit_mark_awaited(mark, b) && !fikit_mark(a) && queried == 0 && !waits);
  fikit_contexts_ending = 0;
  fikit_marks_context_gone(one);
  CHECK(!fikit_mark_awaited(mark, b) && !waits);
  CHECK(fikit_mark_passed(mark) && queried == 0);
  CHECK(fikit_mark_passed(stays) && queried == 1);
  CHECK(fikit_mark(a) && fikit_mark(a) && created == 3);
}

static void captures(void) {
  fikit_captures = 1;
  CHECK(!fikit_mark(a) && created == 0);
  fikit_captures = 0;
  CHECK(fikit_mark(a));
}

/* A child has neither its parent's events nor its marks. */
static void forked(void) {
  for (int i = 0; i < MARKS; i++)
    CHECK(fikit_mark(a));
  fikit_marks_forget_all();
  for (int i = 0; i < MARKS; i++)
    CHECK(fikit_mark(a));
  CHECK(created == 2 * MARKS);
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*run)(void);
  } all[] = {{"order", order}, {"again", again}, {"refused", refused}, {"ends", ends}, {"captures", captures}, {"forked", forked}};
  fikit_slot_fill(FIKIT_SYM_cuCtxGetCurrent, (void *)current_context);
  fikit_slot_fill(FIKIT_SYM_cuEventCreate, (void *)create);
  fikit_slot_fill(FIKIT_SYM_cuEventRecord, (void *)record);
  fikit_slot_fill(FIKIT_SYM_cuEventQuery, (void *)query);
  fikit_slot_fill(FIKIT_SYM_cuStreamWaitEvent, (void *)wait_for);
  current = one;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (argc > 1 && strcmp(argv[1], all[i].name) == 0) {
      all[i].run();
      puts("fine");
      return 0;
    }
  return 1;
}
