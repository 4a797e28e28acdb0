/* Preloaded: the wall clock is a year later or earlier at every look, the clocks that only run forward are as they are. */
#define _GNU_SOURCE
#include "../../../wall_clock.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdatomic.h>
#include <time.h>

#define YEAR_S 31536000

static time_t jump(void) {
  static atomic_int looks;
  return atomic_fetch_add(&looks, 1) % 2 ? YEAR_S : -YEAR_S;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real)
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME && result == 0)
    now->tv_sec += jump();
  return result;
}
