/* The calls that tell the time of day, by what clock_gettime() says: for preloaded libraries that replace that one. */
#ifndef FIKIT_TESTS_WALL_CLOCK_H
#define FIKIT_TESTS_WALL_CLOCK_H

#include <sys/time.h>
#include <time.h>

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &precise);
  *now = (struct timeval){.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
  return 0;
}

time_t time(time_t *out) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (out)
    *out = precise.tv_sec;
  return precise.tv_sec;
}

#endif
