/*
 * The part of the page that holds the marks is registered with the context that first needs one, its home; other contexts
 * of the process do without (marker.c). A context may end without our seeing it, and a write to what it had registered
 * would be an error of the program's: so the driver is asked for the address before each write.
 */
#include "gate/gpu_marker.h"
#include "streams/capture.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/page.h"
#include "base/symbols.h"

#include <stdlib.h>

struct fikit_gpu_markers {
  pthread_mutex_t mutex;
  CUcontext home; /* NULL: not registered */
  bool refused;   /* this device or driver cannot: not asked again */
  uint32_t last;  /* number of the newest mark */
};

struct fikit_gpu_markers *fikit_gpu_markers_new(void) {
  struct fikit_gpu_markers *marks = calloc(1, sizeof *marks);
  if (marks)
    pthread_mutex_init(&marks->mutex, NULL);
  return marks;
}

static bool supported(void) {
  CUdevice ordinal;
  int value = 0;
  return HAS(cuStreamWriteValue32_v2) && HAS(cuMemHostRegister_v2) && HAS(cuMemHostGetDevicePointer_v2) &&
         REAL(cuCtxGetDevice)(&ordinal) == CUDA_SUCCESS &&
         REAL(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, ordinal) == CUDA_SUCCESS &&
         value;
}

static bool registered(struct fikit_page *page) {
  int mode = fikit_capture_relax();
  CUresult result = REAL(cuMemHostRegister_v2)((void *)page->marks, FIKIT_MARKS_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP);
  fikit_capture_restore(mode);
  return result == CUDA_SUCCESS;
}

static _Atomic uint32_t *word_of(struct fikit_page *page, uint32_t number) {
  return &page->marks[number % FIKIT_MARKS];
}

/* The home context is gone: the device writes no more marks, and those that were under way count as reached. */
static void leave_home(struct fikit_device *device) {
  struct fikit_gpu_markers *marks = device->gpu_markers;
  for (uint32_t i = 0; i < FIKIT_MARKS && i < marks->last; i++)
    atomic_store_explicit(word_of(device->page, marks->last - i), marks->last - i, memory_order_release);
  marks->home = NULL;
}

/* Under the mutex. Address of the marks in the current context; 0: no marks here. */
static CUdeviceptr address_in(struct fikit_device *device, CUcontext context) {
  struct fikit_gpu_markers *marks = device->gpu_markers;
  CUdeviceptr address = 0;
  if (marks->home == context &&
      REAL(cuMemHostGetDevicePointer_v2)(&address, (void *)device->page->marks, 0) != CUDA_SUCCESS)
    leave_home(device);
  if (!marks->home && !marks->refused) {
    marks->refused = !supported() || !registered(device->page) ||
                     REAL(cuMemHostGetDevicePointer_v2)(&address, (void *)device->page->marks, 0) != CUDA_SUCCESS;
    marks->home = marks->refused ? NULL : context;
  }
  return marks->home == context && !marks->refused ? address : 0;
}

/* A number for the next mark, and the address of its word; 0: no mark here. */
static CUdeviceptr take(struct fikit_device *device, CUcontext context, uint32_t *number) {
  struct fikit_gpu_markers *marks = device->gpu_markers;
  if (!fikit_lock(&marks->mutex))
    return 0;
  const CUdeviceptr address = fikit_marks_all_out(device->page, marks->last) ? 0 : address_in(device, context);
  if (address)
    *number = ++marks->last;
  fikit_unlock(&marks->mutex);
  return address ? address + *number % FIKIT_MARKS * sizeof(uint32_t) : 0;
}

static void refuse(struct fikit_gpu_markers *marks) {
  if (!fikit_lock(&marks->mutex))
    return;
  marks->refused = true;
  fikit_unlock(&marks->mutex);
}

/* The driver may make a thread wait whose stream is full, and other threads go on meanwhile: so a mark is put without the lock. */
static bool put(struct fikit_device *device, const struct fikit_stream *entry, CUstream stream,
                enum fikit_entry_kind kind, uint64_t value) {
  CUcontext context = NULL;
  uint32_t number = 0;
  if (REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || context != entry->context)
    return false;
  const CUdeviceptr word = take(device, context, &number);
  if (!word)
    return false;
  if (REAL(cuStreamWriteValue32_v2)(stream, word, number, 0) != CUDA_SUCCESS) {
    refuse(device->gpu_markers);
    return false;
  }
  fikit_page_put(device->page, kind, number, value, fikit_now_ns());
  atomic_fetch_add_explicit(&device->page->marker_count, 1, memory_order_relaxed);
  return true;
}

void fikit_gpu_marker_progress(struct fikit_device *device, struct fikit_stream *entry, CUstream stream) {
  if (fikit_capture_anywhere() || device->gpu_markers->refused)
    return;
  uint64_t covers = fikit_stream_covers(entry); /* before the mark is put, so that it stands behind all of them */
  if (covers && put(device, entry, stream, FIKIT_ENTRY_MARK, covers))
    atomic_store_explicit(&device->marked, covers, memory_order_relaxed);
}

bool fikit_gpu_marker_grant(struct fikit_device *device, struct fikit_stream *entry, CUstream stream,
                           uint32_t request_seq) {
  return !device->gpu_markers->refused && put(device, entry, stream, FIKIT_ENTRY_MARK_GRANT, request_seq);
}

void fikit_gpu_markers_forget_context(struct fikit_device *device, CUcontext context) {
  struct fikit_gpu_markers *marks = device->gpu_markers;
  if (!fikit_lock(&marks->mutex))
    return;
  if (marks->home == context)
    leave_home(device);
  fikit_unlock(&marks->mutex);
}
