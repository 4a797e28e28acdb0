#include "memory/places.h"
#include "base/cuda_abi.h"

#include <fikit_protocol.h>
#include <stddef.h>
#include <stdlib.h>

enum { CHUNK_PAGES = FIKIT_CHUNK_BYTES / FIKIT_TOUCH_PAGE_BYTES }; /* a chunk moves as a whole, so joining places within one costs nothing */

/* One end of a copy. */
static void add_end(const uint64_t *end, const CUDA_MEMCPY3D *copy, struct fikit_range *ranges, unsigned *count) {
  enum { X, Y, Z, TYPE = 4, DEVICE = 6, PITCH = 9, ROWS = 10 };
  const int type = (int)end[TYPE];
  const struct fikit_box box = {end[X], end[Y], end[Z], end[PITCH], end[ROWS], copy->width, copy->height, copy->depth};
  if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
    ranges[(*count)++] = fikit_range_of(end[DEVICE], &box);
}

unsigned fikit_ranges_of_copy(const CUDA_MEMCPY3D *copy, struct fikit_range *ranges) {
  unsigned count = 0;
  add_end(copy->from, copy, ranges, &count);
  add_end(copy->to, copy, ranges, &count);
  return count;
}

static int by_place(const void *a, const void *b) {
  const struct fikit_touch *one = a, *two = b;
  if (one->number != two->number)
    return one->number < two->number ? -1 : 1;
  if (one->page != two->page)
    return one->page < two->page ? -1 : 1;
  return (one->length > two->length) - (one->length < two->length);
}

static unsigned each_once(struct fikit_touch *touches, unsigned count) {
  unsigned kept = 0;
  for (unsigned i = 0; i < count; i++)
    if (kept == 0 || by_place(&touches[kept - 1], &touches[i]) != 0)
      touches[kept++] = touches[i];
  return kept;
}

/* Places of one allocation that became one: all from the first to `end`, and what begins at `open`, whose end is not known. */
struct joined {
  struct fikit_touch first;
  unsigned members;
  uint64_t end, open;
};

static void join(struct joined *joined, const struct fikit_touch *touch) {
  const uint64_t end = (uint64_t)touch->page + touch->length;
  if (joined->members++ == 0)
    *joined = (struct joined){*touch, 1, 0, UINT64_MAX};
  if (end > joined->end)
    joined->end = end;
  if (touch->length == 0)
    joined->open = touch->page;
}

/* Two places at most, and no more than joined. */
static unsigned put(const struct joined *joined, struct fikit_touch *out) {
  unsigned made = 0;
  if (joined->members <= 1) {
    out[0] = joined->first;
    return joined->members;
  }
  const uint64_t length = joined->end - joined->first.page;
  if (length > 0) {
    out[made] = joined->first;
    out[made++].length = length <= FIKIT_TOUCH_LENGTH ? (uint32_t)length : 0;
  }
  if (joined->open != UINT64_MAX) {
    out[made] = joined->first;
    out[made].page = (uint32_t)joined->open;
    out[made++].length = 0;
  }
  return made;
}

/* Join what lies at most so many pages apart: how many places that makes, which are written where `out` is not NULL. It may be `touches`. */
static unsigned joined_within(const struct fikit_touch *touches, unsigned count, uint64_t pages, struct fikit_touch *out) {
  struct fikit_touch nowhere[2];
  struct joined joined = {.members = 0};
  unsigned made = 0;
  for (unsigned i = 0; i < count; i++) {
    const struct fikit_touch touch = touches[i];
    if (joined.members && (touch.number != joined.first.number || touch.page > joined.end + pages)) {
      made += put(&joined, out ? &out[made] : nowhere);
      joined.members = 0;
    }
    join(&joined, &touch);
  }
  return made + put(&joined, out ? &out[made] : nowhere);
}

unsigned fikit_places_merge(struct fikit_touch *touches, unsigned count, unsigned most) {
  uint64_t pages = CHUNK_PAGES;
  if (count == 0)
    return 0;
  qsort(touches, count, sizeof *touches, by_place);
  count = each_once(touches, count);
  if (count > most) {
    while (pages <= UINT32_MAX && joined_within(touches, count, pages, NULL) > most)
      pages *= 2;
    count = joined_within(touches, count, pages, touches);
  }
  return count < most ? count : most;
}
