/*
 * For programs that do to their process what programs do: each is linked with the driver and runs the habit named by its
 * first argument. What it prints and how it ends must be the same with and without the shim.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuCtxCreate_v2(void **ctx, unsigned flags, int device);
int cuCtxSetCurrent(void *ctx);
int cuCtxSynchronize(void);
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream);
int cuModuleLoadData(void **module, const void *image);
int cuModuleUnload(void *module);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **params, void **extra);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventSynchronize(void *event);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
int cuStreamQuery(void *stream);
int cuStreamSynchronize(void *stream);
int cuEventDestroy_v2(void *event);

static void *context, *kernel;

static inline void check(int result, const char *what) {
  if (result == 0)
    return;
  printf("%s: %d\n", what, result);
  exit(9);
}
#define CHECK(call) check(call, #call)

static inline void load(void) {
  void *module;
  CHECK(cuCtxCreate_v2(&context, 0, 0));
  CHECK(cuModuleLoadData(&module, ".version 8.0"));
  CHECK(cuModuleGetFunction(&kernel, module, "k"));
}

static inline int launch(unsigned grid) {
  return cuLaunchKernel(kernel, grid, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static inline void launch_some(unsigned count) {
  for (unsigned i = 0; i < count; i++)
    CHECK(launch(1));
  CHECK(cuCtxSynchronize());
}

static inline void start(void) {
  CHECK(cuInit(0));
  load();
}

static inline void nap(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static inline void report_child(const char *what, pid_t pid) {
  int status = -1;
  if (pid < 0 || waitpid(pid, &status, 0) != pid)
    printf("%s: errno %d\n", what, errno);
  else if (WIFEXITED(status))
    printf("%s: exit %d\n", what, WEXITSTATUS(status));
  else
    printf("%s: signal %d\n", what, WTERMSIG(status));
}

struct habit {
  const char *name;
  void (*run)(char **arguments);
};

static inline int run_habit(const struct habit *habits, int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  for (const struct habit *habit = habits; argc > 1 && habit->name; habit++)
    if (strcmp(habit->name, argv[1]) == 0) {
      habit->run(argv + 2);
      puts("end");
      return 0;
    }
  return 64;
}
