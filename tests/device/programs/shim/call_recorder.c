/*
 * A libcuda.so.1 between a program (or the shim) and a driver: notes every call, in order, and passes it on untouched.
 * RECORDED_DRIVER: the driver's absolute path. RECORDED_CALLS: file that receives (thread, number of the name) pairs.
 * NAMES is a header that lists the driver's names and where they are, NAME(cuInit, 0x1234) ... (tests/device/support/call_recorder.py):
 * no dlsym, which the shim would answer.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME(name, offset) number_of_##name,
enum {
#include NAMES
  COUNT
};
#undef NAME
#define NAME(name, offset) #name,
static const char *const names[COUNT] = {
#include NAMES
};
#undef NAME

/* Every name is a stub: number of the call, then note_call, which leaves every argument where it was. */
#define NAME(name, offset)                                            \
  __asm__(".globl " #name "\n.type " #name ", @function\n" #name ":\n" \
          "push %rax\n push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %r8\n push %r9\n" \
          "sub $128, %rsp\n movups %xmm0, (%rsp)\n movups %xmm1, 16(%rsp)\n movups %xmm2, 32(%rsp)\n" \
          "movups %xmm3, 48(%rsp)\n"                                  \
          "lea .Lname_" #name "(%rip), %rdi\n call note_call\n mov %rax, %r11\n" \
          "movups (%rsp), %xmm0\n movups 16(%rsp), %xmm1\n movups 32(%rsp), %xmm2\n movups 48(%rsp), %xmm3\n" \
          "add $128, %rsp\n pop %r9\n pop %r8\n pop %rcx\n pop %rdx\n pop %rsi\n pop %rdi\n pop %rax\n jmp *%r11\n" \
          ".section .rodata\n.Lname_" #name ": .asciz \"" #name "\"\n.text\n"); \
  extern char stub_of_##name[] __asm__(#name);
#include NAMES
#undef NAME
#define NAME(name, offset) stub_of_##name,
static char *const stubs[COUNT] = {
#include NAMES
};

#undef NAME
#define NAME(name, offset) offset,
static const uintptr_t offsets[COUNT] = {
#include NAMES
};

static void *real[COUNT];

enum { ROOM = 1 << 20 };
struct log {
  _Atomic uint64_t calls;
  struct {
    uint32_t thread, number;
  } call[ROOM];
};
static struct log *calls;

/* In a constructor: whoever opens us is not in the middle of looking for a driver any more afterwards. */
__attribute__((constructor)) static void open_driver(void) {
  const char *driver = getenv("RECORDED_DRIVER"), *file = getenv("RECORDED_CALLS");
  void *handle = driver ? dlopen(driver, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;
  int fd = file ? open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  struct link_map *map = NULL;
  if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || fd < 0 || ftruncate(fd, sizeof *calls) != 0) {
    fprintf(stderr, "recorder: cannot begin: %s\n", dlerror());
    _exit(99);
  }
  calls = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  for (int i = 0; i < COUNT; i++)
    real[i] = (void *)(map->l_addr + offsets[i]);
}

static int number(const char *name) {
  int low = 0, high = COUNT - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (strcmp(name, names[middle]) <= 0)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static int look_up(const char *name, void **function, int version, uint64_t flags);
static int look_up_v2(const char *name, void **function, int version, uint64_t flags, int *status);

__attribute__((used)) void *note_call(const char *name) {
  int n = number(name);
  uint64_t at = atomic_fetch_add_explicit(&calls->calls, 1, memory_order_relaxed);
  if (at < ROOM) {
    calls->call[at].thread = (uint32_t)syscall(SYS_gettid);
    calls->call[at].number = (uint32_t)n + 1;
  }
  if (strcmp(name, "cuGetProcAddress") == 0)
    return (void *)look_up;
  if (strcmp(name, "cuGetProcAddress_v2") == 0)
    return (void *)look_up_v2;
  return real[n];
}

/* What the driver hands out is ours again. */
static void substitute(void **function) {
  for (int i = 0; function && *function && i < COUNT; i++)
    if (*function == real[i]) {
      *function = stubs[i];
      return;
    }
}

static int look_up(const char *name, void **function, int version, uint64_t flags) {
  int (*call)(const char *, void **, int, uint64_t) = real[number_of_cuGetProcAddress];
  int result = call(name, function, version, flags);
  if (result == 0)
    substitute(function);
  return result;
}

static int look_up_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  int (*call)(const char *, void **, int, uint64_t, int *) = real[number_of_cuGetProcAddress_v2];
  int result = call(name, function, version, flags, status);
  if (result == 0)
    substitute(function);
  return result;
}
