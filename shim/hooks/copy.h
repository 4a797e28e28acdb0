/*
 * Copies. Within the device one is a launch (hooks/fill.h). Between host and device a copy engine serves all processes, one copy after the other: so a long copy asks at a
 * closed gate where fikitd wants that, and all copies are reported while a job of another priority shares the GPU.
 */
#ifndef FIKIT_SHIM_COPY_H
#define FIKIT_SHIM_COPY_H

#include "hooks/fill.h"
#include "hooks/touches.h"

struct fikit_copying {
  struct fikit_device *device; /* NULL: nothing to do afterwards */
  struct fikit_stream *entry;
  CUstream stream;
  uint32_t request_seq;
};

/* One end of a copy as its call says it: CU_MEMORYTYPE_*, where UNIFIED leaves it to the address. */
struct fikit_end {
  int type;
  CUdeviceptr at; /* of an array: 0 */
};

#define FIKIT_HOST(pointer) ((struct fikit_end){CU_MEMORYTYPE_HOST, (CUdeviceptr)(pointer)})
#define FIKIT_DEVICE(pointer) ((struct fikit_end){CU_MEMORYTYPE_DEVICE, pointer})
#define FIKIT_ANY(pointer) ((struct fikit_end){CU_MEMORYTYPE_UNIFIED, pointer})
#define FIKIT_ARRAY ((struct fikit_end){CU_MEMORYTYPE_ARRAY, 0})

/* What a copy passed as: one of the two, or neither. */
struct fikit_passing {
  struct fikit_launch launch;
  struct fikit_copying copying;
};

/* The part of fikit_copy_begin() for copies that somebody wants to know of. */
struct fikit_passing fikit_copy_look(CUstream stream, struct fikit_end to, struct fikit_end from, size_t bytes, size_t rows);

/* Before a copy on this stream (NULL not allowed), of `bytes` in so many rows. At an open gate nobody but the shim's own table says where memory is, unless copies are
 * reported; and what a call names the host's is the host's. */
__attribute__((always_inline)) static inline struct fikit_passing fikit_copy_begin(CUstream stream, struct fikit_end to, struct fikit_end from, size_t bytes, size_t rows) {
  const struct fikit_device *device = fikit_stream_of(stream)->device;
  const bool between = to.type == CU_MEMORYTYPE_HOST || from.type == CU_MEMORYTYPE_HOST;
  if (!device || (between && __builtin_expect(!fikit_copies_matter(device->page), 1)))
    return (struct fikit_passing){.launch = {.entry = NULL}};
  return fikit_copy_look(stream, to, from, bytes, rows);
}

static inline void fikit_copy_touches(CUstream stream, struct fikit_end end, size_t bytes) {
  if (end.type != CU_MEMORYTYPE_HOST && end.type != CU_MEMORYTYPE_ARRAY)
    fikit_touches_copied(stream, end.at, bytes);
}

/* The same of one piece of memory, which also says what memory it touches. */
__attribute__((always_inline)) static inline struct fikit_passing fikit_copy_begin_flat(CUstream stream, struct fikit_end to, struct fikit_end from, size_t bytes) {
  fikit_copy_touches(stream, to, bytes);
  fikit_copy_touches(stream, from, bytes);
  return fikit_copy_begin(stream, to, from, bytes, 1);
}

/* The same of several at once, which pass as one. */
struct fikit_copies {
  size_t bytes[3]; /* by enum fikit_copy; NONE: within the device */
  size_t rows;
};
void fikit_copies_add(struct fikit_copies *copies, CUstream stream, struct fikit_end to, struct fikit_end from, size_t bytes, size_t rows);
struct fikit_passing fikit_copies_begin(CUstream stream, const struct fikit_copies *copies);

/* A move of managed memory, which goes as copies do. */
struct fikit_passing fikit_copy_begin_move(CUstream stream, enum fikit_copy copy, size_t bytes);

/* The part of fikit_copy_end() for copies that passed as something. */
CUresult fikit_copy_over(const struct fikit_passing *passing, bool waits, CUresult result);

/* After it. `waits`: the call returns when the copy is over. */
static inline CUresult fikit_copy_end(const struct fikit_passing *passing, bool waits, CUresult result) {
  if (__builtin_expect(!passing->launch.entry && !passing->copying.device, 1))
    return result;
  return fikit_copy_over(passing, waits, result);
}

/* A whole function of the driver that copies, in both of its forms: of the legacy default stream and of the thread's own. `begin` knows the stream as `stream_meant`. */
#define FIKIT_COPY(symbol, args, given, meant, waits, begin)                       \
  CUresult symbol args {                                                           \
    const CUstream stream_meant = (meant);                                          \
    const struct fikit_passing passing = (begin);                                   \
    return fikit_copy_end(&passing, waits, REAL(symbol) given); /* NOLINT(bugprone-macro-parentheses): a list of arguments */ \
  }
#define FIKIT_COPY_SYNC(symbol, args, given, begin)                                \
  FIKIT_COPY(symbol, args, given, CU_STREAM_LEGACY, true, begin)                   \
  FIKIT_COPY(symbol##_ptds, args, given, CU_STREAM_PER_THREAD, true, begin)
#define FIKIT_COPY_ASYNC(symbol, args, given, begin)                               \
  FIKIT_COPY(symbol, args, given, fikit_legacy(stream), false, begin)              \
  FIKIT_COPY(symbol##_ptsz, args, given, fikit_per_thread(stream), false, begin)

#endif
