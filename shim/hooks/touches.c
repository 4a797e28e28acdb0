/*
 * A pointer among a kernel's arguments is a word of 8 bytes, at a multiple of 8 from the begin of its parameters, also within structures: the
 * words that are addresses in the program's own table of allocations are taken for pointers. A number that happens to be one costs a
 * move too many, and a pointer that is read from memory one too few: neither costs contents.
 */
#include "hooks/touches.h"
#include "base/clock.h"
#include "base/page.h"
#include "base/symbols.h"
#include "identity/identity.h"
#include "memory/extents.h"

#include <string.h>

enum { MOST_PARAMETERS = 512, MOST_WORDS = 512 };
enum { EXTRA_END = 0, EXTRA_BUFFER = 1, EXTRA_BUFFER_SIZE = 2, MOST_EXTRA = 8 }; /* of CU_LAUNCH_PARAM_* */
enum { CUDA_ERROR_INVALID_VALUE = 1 };

/* Where the values are: one pointer for each parameter, or all in one block. */
struct values {
  void **each;
  const char *block;
  size_t block_bytes;
};

static struct values values_of(const struct fikit_arguments *arguments) {
  struct values values = {.each = arguments->params};
  for (unsigned i = 0; !values.each && arguments->extra && i < 2 * MOST_EXTRA && (uintptr_t)arguments->extra[i] != EXTRA_END; i += 2) {
    if ((uintptr_t)arguments->extra[i] == EXTRA_BUFFER)
      values.block = arguments->extra[i + 1];
    else if ((uintptr_t)arguments->extra[i] == EXTRA_BUFFER_SIZE && arguments->extra[i + 1])
      values.block_bytes = *(const size_t *)arguments->extra[i + 1];
  }
  return values;
}

static const char *value_of(const struct values *values, size_t index, size_t offset, size_t bytes) {
  if (values->each)
    return values->each[index];
  if (!values->block || bytes > values->block_bytes || offset > values->block_bytes - bytes)
    return NULL;
  return values->block + offset;
}

static CUresult parameter(uintptr_t function, bool of_library, size_t index, size_t *offset, size_t *bytes) {
  return of_library ? REAL(cuKernelGetParamInfo)((CUkernel)function, index, offset, bytes)
                    : REAL(cuFuncGetParamInfo)((CUfunction)function, index, offset, bytes);
}

/* The words of all parameters, MOST_WORDS at most. False: the driver says nothing about this function. */
static bool read_words(const struct fikit_arguments *arguments, uint64_t *words, unsigned *count) {
  const bool of_library = fikit_is_kernel_of_library(arguments->function);
  const struct values values = values_of(arguments);
  CUresult known = CUDA_ERROR_INVALID_VALUE; /* the driver's answer behind the last one */
  if (of_library ? !HAS(cuKernelGetParamInfo) : !HAS(cuFuncGetParamInfo))
    return false;
  *count = 0;
  for (size_t index = 0; index < MOST_PARAMETERS; index++) {
    size_t offset = 0, bytes = 0;
    known = parameter(arguments->function, of_library, index, &offset, &bytes);
    if (known != CUDA_SUCCESS)
      break;
    const char *value = value_of(&values, index, offset, bytes);
    for (size_t at = (8 - offset % 8) % 8; value && bytes >= 8 && at <= bytes - 8 && *count < MOST_WORDS; at += 8)
      memcpy(&words[(*count)++], value + at, 8);
  }
  return known == CUDA_ERROR_INVALID_VALUE || known == CUDA_SUCCESS;
}

/* What waits in the ring is worth more: a measured job's times come in the same entries. */
static bool has_room(const struct fikit_page *page) {
  return atomic_load_explicit(&page->ring_head, memory_order_relaxed) - atomic_load_explicit(&page->ring_tail, memory_order_acquire) <
         FIKIT_RING_ENTRIES / 2;
}

static void report(struct fikit_device *device, uint32_t slot, uint64_t seq, const struct fikit_arguments *arguments) {
  uint64_t words[MOST_WORDS];
  struct fikit_touch touches[FIKIT_TOUCHES];
  unsigned count = 0;
  const struct fikit_name *name = (const void *)handle_map_get(&fikit_names, arguments->function);
  if (!seq || !slot || !name || name->unnamed || !has_room(device->page) || !read_words(arguments, words, &count))
    return;
  const unsigned found = fikit_extents_of(device, words, count, touches, FIKIT_TOUCHES);
  fikit_page_put(device->page, FIKIT_ENTRY_TOUCHES, slot, found, (int64_t)seq);
  for (unsigned i = 0; i < found; i++)
    fikit_page_put(device->page, FIKIT_ENTRY_TOUCH, touches[i].number, (uint64_t)touches[i].pages << 32 | touches[i].page, (int64_t)seq);
}

void fikit_touches_timed(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot, uint64_t seq,
                         int64_t called_ns, const struct fikit_arguments *arguments) {
  const bool counts = fikit_measure_end(device, timed, stream, slot, seq, called_ns);
  if ((!arguments->params && !arguments->extra) || !fikit_extents_any())
    return;
  const int64_t start_ns = counts ? fikit_now_ns() : 0;
  report(device, slot, seq, arguments);
  if (counts)
    fikit_measure_spent(device, start_ns);
}
