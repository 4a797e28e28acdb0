/*
 * A launch that is looked at says, besides what it names itself, what copies and memsets have touched since the launch before it: these come with
 * their length. Whatever does not fit into what one launch may say is not learnt.
 */
#include "hooks/touches.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/page.h"
#include "identity/graph.h"
#include "identity/identity.h"
#include "streams/capture.h"
#include "streams/stream.h"

#include <string.h>

enum { MOST_COPIES = 32 };

/* Since launch number `seq` of this GPU; under the lock. */
static struct {
  const struct fikit_device *device;
  uint64_t seq;
  unsigned count;
  struct fikit_range ranges[MOST_COPIES];
} copies;
FIKIT_LOCK(copying);

/* One copy after the other through the same buffer is one place. Not of the buffer behind it: what is beyond its own memory no range says. */
static bool continues(struct fikit_range *last, const struct fikit_range *range) {
  if (last->at + last->bytes != range->at)
    return false;
  last->bytes += range->bytes;
  return true;
}

void fikit_touches_remember(CUstream stream, const struct fikit_range *range) {
  struct fikit_device *device = fikit_stream_of(stream)->device;
  if (!device || !range->bytes || !fikit_measure_due(device) || fikit_capture_anywhere())
    return;
  const bool begins = fikit_extent_begins(range->at);
  if (!fikit_lock(&copying))
    return;
  const uint64_t seq = atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed);
  if (copies.device != device || copies.seq != seq)
    copies.count = 0;
  copies.device = device;
  copies.seq = seq;
  if ((copies.count == 0 || begins || !continues(&copies.ranges[copies.count - 1], range)) && copies.count < MOST_COPIES)
    copies.ranges[copies.count++] = *range;
  fikit_unlock(&copying);
}

/* Those before launch number `seq`. */
static unsigned take_copies(const struct fikit_device *device, uint64_t seq, struct fikit_range *ranges) {
  unsigned count = 0;
  if (!fikit_lock(&copying))
    return 0;
  if (copies.device == device && copies.seq + 1 == seq)
    count = copies.count;
  memcpy(ranges, copies.ranges, count * sizeof *ranges);
  copies.count = 0;
  fikit_unlock(&copying);
  return count;
}

/* What waits in the ring is worth more: a measured job's times come in the same entries. */
static bool has_room(const struct fikit_page *page) {
  return atomic_load_explicit(&page->ring_head, memory_order_relaxed) - atomic_load_explicit(&page->ring_tail, memory_order_acquire) <
         FIKIT_RING_ENTRIES / 2;
}

/* Behind the places that are there. False: what is launched does not say it. */
static bool touches_of(const struct fikit_device *device, const struct fikit_launched *launched, struct fikit_touch *touches,
                       unsigned *found) {
  uint64_t words[FIKIT_ARGUMENT_WORDS];
  unsigned count = 0;
  if (launched->graph)
    return fikit_graph_touches(launched->graph, device, touches, found, FIKIT_TOUCHES);
  if (!launched->kernel.function || !fikit_argument_words(&launched->kernel, words, &count))
    return false;
  *found = fikit_extents_of(device, words, count, touches, *found, FIKIT_TOUCHES);
  return true;
}

static void report(struct fikit_device *device, uint32_t slot, uint64_t seq, const struct fikit_launched *launched) {
  struct fikit_range ranges[MOST_COPIES];
  struct fikit_touch touches[FIKIT_TOUCHES];
  if (!seq || !slot || !has_room(device->page))
    return;
  const unsigned copied = take_copies(device, seq, ranges);
  unsigned found = copied ? fikit_extents_of_ranges(device, ranges, copied, touches, 0, FIKIT_TOUCHES) : 0;
  if (!touches_of(device, launched, touches, &found) && !found)
    return;
  fikit_page_put(device->page, FIKIT_ENTRY_TOUCHES, slot, found, (int64_t)seq);
  for (unsigned i = 0; i < found; i++)
    fikit_page_put(device->page, FIKIT_ENTRY_TOUCH, touches[i].number + touches[i].length * FIKIT_TOUCH_ALLOCATIONS,
                   (uint64_t)touches[i].pages << 32 | touches[i].page, (int64_t)seq);
}

void fikit_touches_timed(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot, uint64_t seq,
                         int64_t called_ns, const struct fikit_launched *launched) {
  const bool counts = fikit_measure_end(device, timed, stream, slot, seq, called_ns);
  if (!fikit_extents_any())
    return;
  const int64_t start_ns = counts ? fikit_now_ns() : 0;
  report(device, slot, seq, launched);
  if (counts)
    fikit_measure_spent(device, start_ns);
}
