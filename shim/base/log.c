#include "base/log.h"
#include "base/file_id.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct fikit_file_id standard_error;

__attribute__((constructor)) static void remember_standard_error(void) {
  standard_error = fikit_file_id(STDERR_FILENO);
}

/* False once the program has closed its standard error, since descriptor 2 may be a data file of its own then; and while a write would
 * block. */
static bool may_write(void) {
  struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
  struct timespec at_once = {0, 0};
  return fikit_same_file(standard_error, fikit_file_id(STDERR_FILENO)) &&
         syscall(SYS_ppoll, &out, 1, &at_once, NULL, 0) == 1 && (out.revents & POLLOUT);
}

/* A write can cause signals that end or stop the program: SIGPIPE, SIGXFSZ, SIGTTOU. They are blocked in this thread, and one that has come is
 * taken out of the queue. */
static void write_silently(const char *line, size_t bytes) {
  enum { MASK_BYTES = 8 }; /* the kernel's sigset_t */
  struct timespec at_once = {0, 0};
  sigset_t signals, before, pending;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  sigaddset(&signals, SIGXFSZ);
  sigaddset(&signals, SIGTTOU);
  sigemptyset(&pending);
  sigpending(&pending);
  sigprocmask(SIG_BLOCK, &signals, &before);
  syscall(SYS_write, STDERR_FILENO, line, bytes);
  if (sigismember(&pending, SIGPIPE))
    sigdelset(&signals, SIGPIPE);
  if (sigismember(&pending, SIGXFSZ))
    sigdelset(&signals, SIGXFSZ);
  sigdelset(&signals, SIGTTOU); /* not sent while it is blocked */
  syscall(SYS_rt_sigtimedwait, &signals, NULL, &at_once, MASK_BYTES);
  sigprocmask(SIG_SETMASK, &before, NULL);
}

/* One write, so that lines of several processes do not mix; not through stdio, whose lock the program may hold. */
void fikit_log(const char *format, ...) {
  char line[640] = "fikit: ";
  const size_t prefix = 7;
  int saved = errno;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
  va_end(arguments);
  if (length > 0 && may_write()) {
    size_t end = prefix + (size_t)length;
    if (end > sizeof line - 2)
      end = sizeof line - 2;
    line[end] = '\n';
    write_silently(line, end + 1);
  }
  errno = saved;
}
