/* What programs do with threads, stacks and signals. */
#include "shim_hostile.h"

#include <limits.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>

static void *launch_once(void *argument) {
  CHECK(cuCtxSetCurrent(context));
  CHECK(launch(1));
  pthread_testcancel();
  return argument;
}

/* One of them is cancelled while it waits at the gate; the others and later launches must get their turn. */
static void cancel_at_the_gate(char **arguments) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  void *result;
  int cancelled = 0;
  (void)arguments;
  start();
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, launch_once, NULL);
  nap(20000);
  pthread_cancel(threads[0]); /* the first one asks for all */
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], &result);
    cancelled += i > 0 && result == PTHREAD_CANCELED;
  }
  launch_some(2);
  printf("others cancelled: %d\n", cancelled);
}

static void *synchronize_for_ever(void *argument) {
  CHECK(cuCtxSetCurrent(context));
  for (unsigned i = 1;; i++) {
    CHECK(launch(i));
    CHECK(cuCtxSynchronize());
    if (i % 64 == 0)
      pthread_testcancel();
  }
  return argument;
}

static void cancel_while_working(char **arguments) {
  (void)arguments;
  start();
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, synchronize_for_ever, NULL);
    nap(2000);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    launch_some(2);
  }
}

static void leave_while_one_waits(char **arguments) {
  pthread_t thread;
  (void)arguments;
  start();
  pthread_create(&thread, NULL, launch_once, NULL);
  nap(20000);
  printf("leaving\n");
  exit(13);
}

static void *work_on_a_small_stack(void *argument) {
  void *event;
  CHECK(cuCtxSetCurrent(context));
  for (unsigned i = 1; i <= 20; i++)
    CHECK(launch(i));
  CHECK(cuEventCreate(&event, 0));
  CHECK(cuEventRecord(event, NULL));
  CHECK(cuEventSynchronize(event));
  CHECK(cuStreamSynchronize(NULL));
  CHECK(cuCtxSynchronize());
  return argument;
}

static void smallest_stack(char **arguments) {
  pthread_attr_t attributes;
  pthread_t thread;
  (void)arguments;
  start();
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
  check(pthread_create(&thread, &attributes, work_on_a_small_stack, NULL), "pthread_create");
  pthread_join(thread, NULL);
}

static _Atomic unsigned signals, refused;

static void launch_in_handler(int signal) {
  (void)signal;
  int saved = errno;
  signals++;
  refused += launch(1 + signals % 50) != 0;
  errno = saved;
}

/* Between any two instructions of the shim a handler may launch too. */
static void launch_from_signals(char **arguments) {
  struct sigaction action = {.sa_handler = launch_in_handler, .sa_flags = SA_RESTART};
  struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  (void)arguments;
  start();
  CHECK(launch(1));
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  for (unsigned i = 1; signals < 300; i++) {
    void *event;
    CHECK(launch(1 + i % 3000));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventRecord(event, NULL));
    CHECK(cuEventSynchronize(event));
    CHECK(cuCtxSynchronize());
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("refused: %u\n", refused);
}

static void launch_on_another_stack(char **arguments) {
  stack_t stack = {.ss_size = 16 << 10};
  struct sigaction action = {.sa_handler = launch_in_handler, .sa_flags = SA_ONSTACK};
  (void)arguments;
  stack.ss_sp = malloc(stack.ss_size);
  start();
  CHECK(launch(1));
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < 20; i++)
    raise(SIGUSR1);
  printf("refused: %u of %u\n", refused, signals);
}

/* A virtual machine's habits: a handler for accesses to pages that it protects, on a stack of its own, and null
 * dereferences that are no errors. */
static char *guarded;
static _Atomic unsigned faults;

static void unprotect(int signal, siginfo_t *info, void *machine) {
  (void)signal, (void)machine;
  if ((char *)info->si_addr < guarded || (char *)info->si_addr >= guarded + 4096)
    _exit(66);
  faults++;
  mprotect(guarded, 4096, PROT_READ | PROT_WRITE);
}

static void virtual_machine(char **arguments) {
  stack_t stack = {.ss_size = 64 << 10};
  struct sigaction action = {.sa_sigaction = unprotect, .sa_flags = SA_ONSTACK | SA_SIGINFO | SA_RESTART};
  (void)arguments;
  stack.ss_sp = malloc(stack.ss_size);
  sigaltstack(&stack, NULL);
  sigaction(SIGSEGV, &action, NULL);
  guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  start();
  for (int i = 0; i < 50; i++) {
    mprotect(guarded, 4096, PROT_NONE);
    *(volatile char *)guarded = 1;
    CHECK(launch(1));
  }
  CHECK(cuCtxSynchronize());
  struct sigaction now;
  sigaction(SIGSEGV, NULL, &now);
  printf("faults: %u, handler is its own: %d\n", faults, now.sa_sigaction == unprotect);
}

/* Thread-local storage of the program that fills a small stack alone. */
static __thread volatile char storage[1 << 20];

static void large_thread_local_storage(char **arguments) {
  pthread_t thread;
  (void)arguments;
  storage[sizeof storage - 1] = 1;
  start();
  pthread_create(&thread, NULL, launch_once, NULL);
  pthread_join(thread, NULL);
  launch_some(2);
}

static void *do_everything(void *argument) {
  unsigned number = (unsigned)(uintptr_t)argument;
  CHECK(cuCtxSetCurrent(context));
  for (unsigned round = 0; round < 40; round++) {
    void *stream, *event, *module, *function;
    char name[32];
    snprintf(name, sizeof name, "kernel-%u", round % 8);
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuModuleLoadData(&module, ".version 8.0"));
    CHECK(cuModuleGetFunction(&function, module, name));
    for (unsigned i = 1; i <= 8; i++) {
      CHECK(cuLaunchKernel(function, i, 1 + number, 1, 1, 1, 1, 0, i & 1 ? stream : NULL, NULL, NULL));
      CHECK(cuEventRecord(event, stream));
      cuStreamQuery(stream);
    }
    CHECK(cuEventSynchronize(event));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSynchronize());
    CHECK(cuEventDestroy_v2(event));
    CHECK(cuStreamDestroy_v2(stream));
  }
  return NULL;
}

static void everything_at_once(char **arguments) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  (void)arguments;
  start();
  for (uintptr_t i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, do_everything, (void *)i);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

/* Nothing that belongs to the process is changed by being managed. */
static void keeps_its_settings(char **arguments) {
  sigset_t blocked;
  (void)arguments;
  start();
  launch_some(2);
  pthread_sigmask(SIG_BLOCK, NULL, &blocked);
  for (int signal = 1; signal < 64; signal++) {
    struct sigaction action;
    if (signal != 32 && signal != 33 && sigaction(signal, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
      printf("signal %d has a handler\n", signal);
    if (sigismember(&blocked, signal) == 1)
      printf("signal %d is blocked\n", signal);
  }
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  mode_t mask = umask(0);
  printf("umask %o, %d cpus\n", mask, CPU_COUNT(&cpus));
  FILE *status = fopen("/proc/self/status", "r");
  for (char line[256]; status && fgets(line, sizeof line, status);)
    if (strncmp(line, "Threads:", 8) == 0)
      printf("%s", line);
}

int main(int argc, char **argv) {
  static const struct habit habits[] = {
      {"cancel at the gate", cancel_at_the_gate},
      {"cancel while working", cancel_while_working},
      {"leave while one waits", leave_while_one_waits},
      {"smallest stack", smallest_stack},
      {"launch from signals", launch_from_signals},
      {"launch on another stack", launch_on_another_stack},
      {"virtual machine", virtual_machine},
      {"large thread-local storage", large_thread_local_storage},
      {"everything at once", everything_at_once},
      {"settings", keeps_its_settings},
      {NULL, NULL},
  };
  return run_habit(habits, argc, argv);
}
