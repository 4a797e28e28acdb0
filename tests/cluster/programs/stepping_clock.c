/* CLOCK_REALTIME with somebody's hand on it: shifted by the seconds in the file that STEPPING_CLOCK names, at any moment.
 *
 * Preloaded into a sandbox's Slurm, fikitd and jobs. What waits until a time of day waits as long as it would have, as
 * with a real clock that is set forward or back between two looks. */
#include "../../wall_clock.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int64_t zero;
static const volatile int64_t *shift = &zero;

__attribute__((constructor)) static void map(void) {
  const char *path = getenv("STEPPING_CLOCK");
  const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0)
    return;
  void *page = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED)
    shift = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  const int error = (int)syscall(SYS_clock_gettime, clock, now);
  if (error == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += *shift;
  return error;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  struct timespec unshifted = *until;
  /* A wait on CLOCK_MONOTONIC is below a year after the boot; a time of day is not. */
  if (unshifted.tv_sec > 1000000000)
    unshifted.tv_sec -= *shift;
  return real(condition, mutex, &unshifted);
}
