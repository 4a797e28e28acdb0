/* What a launch's way to the device takes: on an idle stream the event before a kernel is reached while the kernel is still on its
 * way, so that the two events around it time that, too. */
#ifndef FIKIT_SHIM_CALIBRATE_H
#define FIKIT_SHIM_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

struct fikit_way {
  int64_t launch_ns; /* between an event and the kernel behind it, on an idle stream, where the host launches at once */
  int64_t call_ns;   /* the host's own time for that */
};

/* Tries it out with nine of the smallest memsets, in a stream of its own of the current context, with a few bytes of the GPU's
 * and of page-locked memory for that time. It begins no round after 4 ms and holds its stream for at most as long at a time.
 * False: the driver refuses it (waits for a word of memory, among others), or the rounds disagree, for others use the device. */
bool fikit_calibrate(struct fikit_way *way);

#endif
