/* The one clock: CLOCK_MONOTONIC nanoseconds (vDSO, no system call). */
#ifndef FIKIT_SHIM_CLOCK_H
#define FIKIT_SHIM_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t fikit_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
