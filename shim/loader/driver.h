/* Which file is the real driver, and its functions. */
#ifndef FIKIT_SHIM_DRIVER_H
#define FIKIT_SHIM_DRIVER_H

#include <stdbool.h>

/* The real driver's handle, opened at the first call; NULL where this machine has none. */
void *fikit_driver(void);

/* The program opened a driver by its absolute path: use that file if none is open yet. */
void fikit_driver_adopt(const char *path);

/* Whether `function` is of the file that is open as the driver: a process may have more than one. */
bool fikit_driver_holds(const void *function);

/* Path of the libcuda.so.1 that ld.so would load if the shim were not there, or false. driver_search.c. */
bool fikit_driver_search(char path[4096]);

/* True while this thread searches or opens the driver: dlsym calls made meanwhile must not lead back here. */
bool fikit_driver_busy(void);

#endif
