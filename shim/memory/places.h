/* Places of memory that a launch touches, in numbers that are the same in every run (extents.h). */
#ifndef FIKIT_SHIM_PLACES_H
#define FIKIT_SHIM_PLACES_H

#include "base/memory_abi.h"

#include <stdint.h>

/* Memory from an address on. */
struct fikit_range {
  uint64_t at, bytes; /* 0: where it ends is not known */
};

/* Rows in memory that begins at an address, and several layers of such rows: where a copy or a memset is, as the driver's structures say it. */
struct fikit_box {
  uint64_t x, y, z;              /* of its first byte, in bytes, rows, layers */
  uint64_t pitch, rows;          /* of a row, in bytes; of a layer, in rows */
  uint64_t width, height, depth; /* in bytes, rows, layers */
};

/* From its first to its last byte, with what lies between its rows. */
static inline struct fikit_range fikit_range_of(uint64_t at, const struct fikit_box *box) {
  if (!box->width || !box->height || !box->depth)
    return (struct fikit_range){0, 0};
  const uint64_t rows = (box->depth - 1) * box->rows + box->height - 1; /* before its last one */
  return (struct fikit_range){at + (box->z * box->rows + box->y) * box->pitch + box->x, rows * box->pitch + box->width};
}

/* Where a copy reads and writes linear memory: how many ranges, two at most. Memory that may be the host's is among them: it is no address of the GPU's. */
unsigned fikit_ranges_of_copy(const CUDA_MEMCPY3D *copy, struct fikit_range *ranges);

/* The same, said by the allocation. */
struct fikit_touch {
  uint32_t number; /* of the allocation */
  uint32_t page;   /* of FIKIT_TOUCH_PAGE_BYTES, from the allocation's begin */
  uint32_t pages;  /* of the whole allocation */
  uint32_t length; /* pages that are touched from there on; 0: not known */
};

/* Sort the places, each once. Where there are more than `most`, near ones are joined, then farther ones, until they are few enough; if they never are, the last ones are
 * left out. Returns how many there are. */
unsigned fikit_places_merge(struct fikit_touch *touches, unsigned count, unsigned most);

#endif
