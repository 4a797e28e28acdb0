/* cuGetProcAddress: the CUDA runtime's way to the driver. Ask the driver first; replace only a successful answer, by
 * (name, version, per-thread flag), so that an old caller never gets a newer ABI (interception notes, section 4). */
#include "base/cuda_abi.h"
#include "base/symbols.h"

#include <string.h>

/* First row of `name` in the sorted table, or the number of rows. */
static unsigned first_row(const char *name) {
  unsigned low = 0, high = fikit_version_rows;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (strcmp(fikit_versions[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The newest row of (name, per_thread) that is not newer than `version`; NULL if there is none. */
static const struct fikit_version_row *row_of(const char *name, int version, int per_thread) {
  const struct fikit_version_row *best = NULL;
  for (unsigned i = first_row(name); i < fikit_version_rows && strcmp(fikit_versions[i].name, name) == 0; i++)
    if (fikit_versions[i].per_thread == per_thread && fikit_versions[i].version <= version)
      best = &fikit_versions[i];
  return best;
}

/* Where the driver answers with a function that it exports, that tells which one it is, and the caller got its arguments right
 * by it: our table of versions was made from headers, which cannot know what each driver really answers. */
static const struct fikit_version_row *row_answered(const struct fikit_version_row *expected, const char *name,
                                                    const void *answer) {
  if (fikit_real(expected->symbol) == answer)
    return expected;
  for (unsigned i = first_row(name); i < fikit_version_rows && strcmp(fikit_versions[i].name, name) == 0; i++)
    if (fikit_real(fikit_versions[i].symbol) == answer)
      return &fikit_versions[i];
  return expected;
}

static void substitute(const char *name, void **function, int version, uint64_t flags) {
  int driver_version = 0;
  if (!name || !function || !*function)
    return;
  if (REAL(cuDriverGetVersion)(&driver_version) == CUDA_SUCCESS && driver_version < version)
    version = driver_version; /* it cannot have answered with an ABI that is newer than itself */
  const struct fikit_version_row *row = NULL;
  if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    row = row_of(name, version, 1);
  if (!row)
    row = row_of(name, version, 0);
  row = row ? row_answered(row, name, *function) : NULL;
  if (!row || !fikit_exports[row->symbol].handled)
    return;
  fikit_offer(row->symbol, *function);
  *function = fikit_exports[row->symbol].own;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
  CUresult result = REAL(cuGetProcAddress)(name, function, version, flags);
  if (result == CUDA_SUCCESS)
    substitute(name, function, version, flags);
  return result;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  CUresult result = REAL(cuGetProcAddress_v2)(name, function, version, flags, status);
  if (result == CUDA_SUCCESS)
    substitute(name, function, version, flags);
  return result;
}
