/* Notices the end of fikitd without a thread of our own, which would keep a process alive whose last thread has left, and
 * forbid what only processes of one thread may do. */
#ifndef FIKIT_SHIM_MONITOR_H
#define FIKIT_SHIM_MONITOR_H

#include "base/device.h"

/* How long a closed gate, or a program that synchronises, may not know that fikitd is gone. */
enum { FIKIT_LOOK_WAITING_NS = 50000000, FIKIT_LOOK_RUNNING_NS = 1000000 };

/* The socket says so. */
bool fikit_connection_ended(const struct fikit_device *device);

/* If nobody looked for `interval_ns`: is fikitd still there? If not, the device is released, and one line says so. */
void fikit_monitor_look(struct fikit_device *device, int64_t interval_ns);

#endif
