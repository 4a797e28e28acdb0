// For LD_PRELOAD: pretends that libcuda has allocated a channel group at /dev/nvidiactl, and answers the controls of it.
// FAKE_NVIDIACTL: "ok", "refuse", "nonsense", "hang", "exit", or "two": it takes the parameters of GPFIFO_SCHEDULE in two bytes only.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct alloc {
  uint32_t client, parent, object, class;
  uint64_t parameters, rights;
  uint32_t size, flags, status, unused;
};
struct control {
  uint32_t client, object, command, flags;
  uint64_t parameters;
  uint32_t size, status;
};

static int file = -1;
static uint64_t slice_us = 2000;

static int is(const char *word) {
  const char *said = getenv("FAKE_NVIDIACTL");
  return said && strcmp(said, word) == 0;
}

static int answer(struct control *call) {
  uint64_t *value = (uint64_t *)(uintptr_t)call->parameters;
  if (is("hang"))
    for (;;)
      pause();
  if (is("exit"))
    _exit(3);
  if (is("nonsense")) {
    call->status = 0xdeadbeef;
    memset(value, 0xff, call->size);
    return 0;
  }
  call->status = is("refuse") ? 0x1b : 0; // NV_ERR_INSUFFICIENT_PERMISSIONS
  if (is("two") && call->command == 0xa06c0101 && call->size != 2)
    call->status = 0x3a;
  if (call->status == 0 && call->command == 0xa06c0103)
    slice_us = *value;
  if (call->status == 0 && call->command == 0xa06c0104)
    *value = slice_us;
  return 0;
}

int ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void *argument = va_arg(list, void *);
  va_end(list);
  if (file >= 0 && fd == file && _IOC_NR(request) == 0x2a)
    return answer(argument);
  if (file >= 0 && fd == file && _IOC_NR(request) == 0x2b)
    return 0;
  return ((int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl"))(fd, request, argument);
}

__attribute__((constructor)) static void allocate(void) {
  if (!getenv("FAKE_NVIDIACTL"))
    return;
  static uint32_t parameters[5] = {0, 0, 0, 1, 0};
  struct alloc group = {.client = 0xc1d00001, .parent = 0x5c000001, .object = 0x5c000010, .class = 0xa06c,
                        .parameters = (uint64_t)(uintptr_t)parameters, .size = sizeof parameters};
  file = open("/dev/null", O_RDWR | O_CLOEXEC);
  int (*first)(int, unsigned long, ...) = (int (*)(int, unsigned long, ...))dlsym(RTLD_DEFAULT, "ioctl");
  first(file, _IOWR('F', 0x2b, struct alloc), &group);
  if (is("hang") || is("exit"))
    return;
  uint64_t slice = slice_us; // libcuda sets the length, too
  struct control own = {.client = group.client, .object = group.object, .command = 0xa06c0103,
                        .parameters = (uint64_t)(uintptr_t)&slice, .size = sizeof slice};
  first(file, _IOWR('F', 0x2a, struct control), &own);
}
