/*
 * A pointer among a kernel's arguments is a word of 8 bytes, at a multiple of 8 from the begin of its parameters, also within structures: the
 * words that are addresses in the program's own table of allocations are taken for pointers. A number that happens to be one costs a
 * move too many, and a pointer that is read from memory one too few: neither costs contents.
 */
#include "identity/arguments.h"
#include "identity/identity.h"
#include "base/symbols.h"

#include <string.h>

enum { MOST_PARAMETERS = 512 };
enum { EXTRA_END = 0, EXTRA_BUFFER = 1, EXTRA_BUFFER_SIZE = 2, MOST_EXTRA = 8 }; /* of CU_LAUNCH_PARAM_* */

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

bool fikit_argument_words(const struct fikit_arguments *arguments, uint64_t *words, unsigned *count) {
  const bool of_library = fikit_is_kernel_of_library(arguments->function);
  const struct values values = values_of(arguments);
  CUresult known = CUDA_ERROR_INVALID_VALUE; /* the driver's answer behind the last one */
  const struct fikit_name *name = (const void *)handle_map_get(&fikit_names, arguments->function);
  if (!name || name->unnamed)
    return false;
  if (of_library ? !HAS(cuKernelGetParamInfo) : !HAS(cuFuncGetParamInfo))
    return false;
  *count = 0;
  for (size_t index = 0; index < MOST_PARAMETERS; index++) {
    size_t offset = 0, bytes = 0;
    known = parameter(arguments->function, of_library, index, &offset, &bytes);
    if (known != CUDA_SUCCESS)
      break;
    const char *value = value_of(&values, index, offset, bytes);
    for (size_t at = (8 - offset % 8) % 8; value && bytes >= 8 && at <= bytes - 8 && *count < FIKIT_ARGUMENT_WORDS; at += 8)
      memcpy(&words[(*count)++], value + at, 8);
  }
  return known == CUDA_ERROR_INVALID_VALUE || known == CUDA_SUCCESS;
}
