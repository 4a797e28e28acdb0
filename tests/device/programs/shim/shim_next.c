/* Two libraries that define the same function; the first asks for the next one. A hooked dlsym must not change that. */
#define _GNU_SOURCE
#include <dlfcn.h>

const char *who_is_next(void);

#ifdef FIRST
const char *who_is_next(void) {
  const char *(*next)(void) = (const char *(*)(void))dlsym(RTLD_NEXT, "who_is_next");
  return next ? next() : "nobody";
}
#else
const char *who_is_next(void) {
  return "the second library";
}
#endif
