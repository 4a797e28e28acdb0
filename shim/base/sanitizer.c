/*
 * Programs built with GCC's AddressSanitizer end at once when any library was preloaded before its runtime. The check
 * guards against allocators that come first, which we are not. The runtime asks this function for its defaults; ASAN_OPTIONS
 * and a function of the program's own still win.
 */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "verify_asan_link_order=0";
}
