/* Measures what two events around a kernel tell beside its run: what the events themselves cost and, on an idle stream, the launch's way to the
 * device, since the event before a kernel is reached while the kernel is still on its way. */
#ifndef FIKIT_SHIM_CALIBRATE_H
#define FIKIT_SHIM_CALIBRATE_H

#include "base/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

struct fikit_way {
  int64_t launch_ns; /* that two events tell more on an idle stream than on one with work, where the host launches at once */
  int64_t call_ns;   /* the host's time for the call */
  int64_t hidden_ns; /* what a call takes beyond this they tell, too */
  int64_t pair_ns;   /* of the events themselves, on any stream */
};

/* What the rounds use, in one context. It begins as {0}, and is kept until the context ends: to free memory is to wait for all work of the
 * context, which may be a kernel that runs until the host says so. */
struct fikit_bench {
  CUcontext context; /* NULL: nothing was made */
  CUstream stream;
  CUevent before, start, end;
  void *word; /* that the stream waits for; page-locked */
  CUdeviceptr word_address;
  CUdeviceptr target; /* of the memsets */
  uint32_t rounds;    /* that waited for the word, each for another number */
  int64_t call_ns;    /* the host's, of one memset: least, and... */
  int64_t late_call_ns; /* ...with LATE_NS before it */
  int64_t arrived_ns; /* from the first call of an idle round until the device had done it all: least */
};

/* Runs thirteen of the smallest memsets in a stream of its own in the current context. It begins no third round after 4 ms, holds its stream for at most
 * 4 ms at a time, and waits at most 20 ms for the device, once: while the device has not done that round no other begins. False: the driver refuses a
 * call (such as the wait for a word of memory), the device is busy, the bench is another context's, or the rounds disagree, because other
 * processes use the device. */
bool fikit_calibrate(struct fikit_bench *bench, struct fikit_way *way);

#endif
