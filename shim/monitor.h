/* Notices the end of fikitd at once, also while no thread of the program looks. */
#ifndef FIKIT_SHIM_MONITOR_H
#define FIKIT_SHIM_MONITOR_H

#include "device.h"

/* Start a thread that sleeps on the device's socket until fikitd closes it. */
void fikit_monitor_start(struct fikit_device *device);

#endif
