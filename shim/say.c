#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* One write, so that lines of several processes do not mix; not through stdio, whose lock the program may hold. */
void fikit_say(const char *format, ...) {
  char line[640] = "fikit: ";
  const size_t prefix = 7;
  int saved = errno;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
  va_end(arguments);
  if (length > 0) {
    size_t end = prefix + (size_t)length;
    if (end > sizeof line - 2)
      end = sizeof line - 2;
    line[end] = '\n';
    ssize_t written = write(STDERR_FILENO, line, end + 1);
    (void)written;
  }
  errno = saved;
}
