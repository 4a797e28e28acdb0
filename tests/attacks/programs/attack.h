/* What the programs of tests/attacks share: a context, a kernel whose duration its argument says, and a record of when each iteration ended.
 * PROGRAM SECONDS ...: standard output gets "begun NS PID" at the first work, and "ended NS NS ..." at SIGTERM or after SECONDS. */
#ifndef ATTACK_H
#define ATTACK_H

#include "../../device/programs/emulator/emu_api.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MS = 1000000, US = 1000 };
enum { BLOCKS = 1056, THREADS = 256 }; /* they fill the emulated device once, so that under MPS kernels stand in each other's way, too */
enum { MOST_ENDS = 1 << 20 };

static CUfunction timed;
static volatile sig_atomic_t told_to_end, told_to_go;
static int64_t until_ns, ends[MOST_ENDS];
static unsigned count;

static inline void pause_ns(int64_t ns) {
  nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static inline void on_signal(int number) {
  *(number == SIGTERM ? &told_to_end : &told_to_go) = 1;
}

static inline void say(const char *word) {
  printf("%s %lld %d\n", word, (long long)now_ns(), getpid());
  fflush(stdout);
}

static inline void launch_grid(int64_t ns, CUstream stream, unsigned blocks) {
  void *arguments[] = {&ns};
  OK(cuLaunchKernel(timed, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL));
}

static inline void launch(int64_t ns, CUstream stream) {
  launch_grid(ns, stream, BLOCKS);
}

static inline void begin_without_device(int argc, char **argv) {
  signal(SIGTERM, on_signal);
  signal(SIGUSR1, on_signal);
  until_ns = now_ns() + (int64_t)(1e9 * (argc > 1 ? atof(argv[1]) : 12));
  say("begun");
}

/* The context is there and its kernel loaded. */
static inline void begin(int argc, char **argv) {
  CUcontext context;
  timed = kernel(open_device(&context), "fikit_spin");
  begin_without_device(argc, argv);
}

/* A child says nothing, and does not outlive its parent. */
static inline void hush(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  CHECK(freopen("/dev/null", "w", stdout) != NULL && freopen("/dev/null", "w", stderr) != NULL);
}

/* From here on the program goes on in so many processes, of which the first one speaks. */
static inline void crew(int processes) {
  for (int i = 1; i < processes; i++)
    if (fork() == 0) {
      hush();
      return;
    }
}

static inline int going_on(void) {
  return !told_to_end && now_ns() < until_ns;
}

/* An iteration has ended. */
static inline void ended(void) {
  if (count < MOST_ENDS)
    ends[count++] = now_ns();
}

static inline int finish(void) {
  printf("ended");
  for (unsigned i = 0; i < count; i++)
    printf(" %lld", (long long)ends[i]);
  printf("\n");
  fflush(stdout);
  _exit(0); /* what is still on the device is nobody's */
}

#endif
