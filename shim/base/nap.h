/* A short sleep, by the one call with which a thread of the shim's sleeps (docs/design/interception.md) and in which no thread is cancelled: nobody wakes it. */
#ifndef FIKIT_SHIM_NAP_H
#define FIKIT_SHIM_NAP_H

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Less than a second. */
static inline void fikit_nap(int64_t ns) {
  static const uint32_t word;
  const struct timespec a_little = {.tv_nsec = (long)ns};
  int saved = errno;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &a_little, NULL, 0);
  errno = saved;
}

#endif
