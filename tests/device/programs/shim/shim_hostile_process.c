/* What programs do with processes: children, replacement, becoming a daemon, ends of every kind. */
#include "shim_hostile.h"

#include <fcntl.h>
#include <spawn.h>

extern char **environ;

static void fork_and_launch(char **arguments) {
  (void)arguments;
  start();
  launch_some(2);
  pid_t pid = fork();
  if (pid == 0) {
    load();
    launch_some(3);
    _exit(3);
  }
  report_child("fork", pid);
  launch_some(2);
}

int cuMemCreate(unsigned long long *handle, size_t bytes, const void *properties, unsigned long long flags);
int cuMemRelease(unsigned long long handle);

static void take_memory(void) {
  static const int on_gpu[] = {1, 0, 1, 0, 0, 0, 0, 0}; /* pinned, no handle type, on device 0 */
  unsigned long long handle;
  CHECK(cuMemCreate(&handle, 4096, on_gpu, 0));
  CHECK(cuMemRelease(handle));
}

static void *load_for_ever(void *argument) {
  _Atomic int *stop = argument;
  CHECK(cuCtxSetCurrent(context));
  for (unsigned i = 0; !*stop; i++) {
    void *module, *function;
    char name[32];
    snprintf(name, sizeof name, "kernel-%u", i % 500);
    CHECK(cuModuleLoadData(&module, ".version 8.0"));
    CHECK(cuModuleGetFunction(&function, module, name));
    CHECK(cuLaunchKernel(function, 1 + i % 7, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(cuCtxSynchronize());
    for (int j = 0; j < 300; j++)
      take_memory();
  }
  return NULL;
}

/* At some of these forks another thread holds one of the shim's locks. */
static void fork_beside_busy_threads(char **arguments) {
  enum { THREADS = 3, FORKS = 60 };
  pthread_t threads[THREADS];
  _Atomic int stop = 0;
  (void)arguments;
  start();
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, load_for_ever, (void *)&stop);
  for (int i = 0; i < FORKS; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      alarm(20); /* a lock that nobody gives back */
      load();
      launch_some(2);
      take_memory();
      _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (status != 0)
      printf("child %d: status %d\n", i, status);
    nap(500);
  }
  stop = 1;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static void vfork_and_exec(char **arguments) {
  (void)arguments;
  start();
  launch_some(2);
  pid_t pid = vfork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", "exit 7", NULL);
    _exit(1);
  }
  report_child("vfork", pid);
  launch_some(2);
}

static void spawn(char **arguments) {
  char *command[] = {"sh", "-c", "exit 8", NULL};
  pid_t pid = -1;
  (void)arguments;
  start();
  launch_some(2);
  if (posix_spawn(&pid, "/bin/sh", NULL, NULL, command, environ) != 0)
    puts("could not spawn");
  report_child("spawn", pid);
  launch_some(2);
}

static void replace_itself(char **arguments) {
  (void)arguments;
  start();
  launch_some(2);
  execl("/bin/echo", "echo", "replaced", NULL);
}

/* Twice forked, all descriptors closed; result in a file, since nobody waits for a daemon. */
static void become_daemon(char **arguments) {
  start();
  launch_some(2);
  if (fork() != 0)
    _exit(5);
  setsid();
  if (fork() != 0)
    _exit(0);
  for (int fd = 0; fd < 1024; fd++)
    close(fd);
  int log = open(arguments[0], O_RDWR | O_CREAT | O_APPEND, 0600); /* descriptor 0 */
  dup(log);
  dup(log); /* standard error is a file of the daemon's now */
  load();
  launch_some(3);
  dprintf(log, "daemon done\n");
  _exit(0);
}

static void *launch_for_ever(void *argument) {
  CHECK(cuCtxSetCurrent(context));
  while (launch(1) == 0)
    ;
  return argument;
}

static void leave_at_once(char **arguments) {
  pthread_t thread;
  (void)arguments;
  start();
  pthread_create(&thread, NULL, launch_for_ever, NULL);
  nap(20000);
  _exit(11);
}

static void leave_by_exit(char **arguments) {
  pthread_t thread;
  (void)arguments;
  start();
  pthread_create(&thread, NULL, launch_for_ever, NULL);
  nap(20000);
  exit(12);
}

static void crash(void) {
  abort();
}

static void crash_at_exit(char **arguments) {
  (void)arguments;
  start();
  launch_some(2);
  atexit(crash);
}

static void launch_late(void) {
  launch_some(2);
  puts("launched at exit");
}

static void launch_at_exit(char **arguments) {
  (void)arguments;
  atexit(launch_late); /* runs after what the driver registered */
  start();
}

static void *outlive(void *argument) {
  CHECK(cuCtxSetCurrent(context));
  nap(20000);
  launch_some(3);
  puts("outlived");
  return argument;
}

static void main_thread_ends_first(char **arguments) {
  pthread_t thread;
  (void)arguments;
  start();
  pthread_create(&thread, NULL, outlive, NULL);
  pthread_exit(NULL);
}

int main(int argc, char **argv) {
  static const struct habit habits[] = {
      {"fork", fork_and_launch},
      {"fork beside busy threads", fork_beside_busy_threads},
      {"vfork", vfork_and_exec},
      {"posix_spawn", spawn},
      {"exec", replace_itself},
      {"daemon", become_daemon},
      {"_exit", leave_at_once},
      {"exit", leave_by_exit},
      {"crash in atexit", crash_at_exit},
      {"launch in atexit", launch_at_exit},
      {"pthread_exit of main", main_thread_ends_first},
      {NULL, NULL},
  };
  return run_habit(habits, argc, argv);
}
