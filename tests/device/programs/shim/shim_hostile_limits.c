/* What programs and administrators take away from a process: descriptors, memory, threads, file sizes, system calls,
 * parts of the file system. */
#include "shim_hostile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static void limit(int what, rlim_t value) {
  struct rlimit both = {value, value};
  if (setrlimit(what, &both) != 0)
    printf("setrlimit %d: errno %d\n", what, errno);
}

/* No descriptor is left when the connection would be made; later there are some again. */
static void use_all_descriptors(char **arguments) {
  (void)arguments;
  struct rlimit few = {64, 64};
  setrlimit(RLIMIT_NOFILE, &few);
  while (dup(0) >= 0)
    ;
  start();
  launch_some(3);
  for (int fd = 10; fd < 64; fd++)
    close(fd);
  launch_some(3);
}

/* One is left: enough for the socket, not for what comes with the answer. */
static void leave_one_descriptor(char **arguments) {
  (void)arguments;
  struct rlimit few = {64, 64};
  setrlimit(RLIMIT_NOFILE, &few);
  while (dup(0) >= 0)
    ;
  close(20);
  start();
  launch_some(3);
  printf("still free: %d\n", open("/dev/null", O_RDONLY));
}

/* A program that opens the driver itself fails without descriptors, and succeeds when it tries again. */
static void retry_with_descriptors(char **arguments) {
  struct rlimit few = {64, 64}, before;
  int (*init)(unsigned) = NULL;
  (void)arguments;
  getrlimit(RLIMIT_NOFILE, &before);
  few.rlim_max = before.rlim_max;
  setrlimit(RLIMIT_NOFILE, &few);
  while (dup(0) >= 0)
    ;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver && (init = (int (*)(unsigned))dlsym(driver, "cuInit")))
    init(0);
  for (int fd = 10; fd < 64; fd++)
    close(fd);
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  init = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
  printf("second try: %d\n", init ? init(0) : -1);
}

static void close_everything(char **arguments) {
  (void)arguments;
  start();
  launch_some(2);
  for (int fd = 3; fd < 1024; fd++)
    close(fd);
  for (unsigned i = 1; i <= 5; i++)
    CHECK(launch(i));
  CHECK(cuCtxSynchronize());
}

static void little_address_space(char **arguments) {
  unsigned long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  (void)arguments;
  CHECK(cuInit(0));
  if (!statm || fscanf(statm, "%lu", &pages) != 1)
    puts("no statm");
  limit(RLIMIT_AS, (rlim_t)pages * 4096 + (64 << 10));
  load();
  launch_some(3);
}

static void no_threads(char **arguments) {
  (void)arguments;
  CHECK(cuInit(0));
  if (setresuid(65534, 65534, 65534) != 0)
    puts("could not become nobody");
  limit(RLIMIT_NPROC, 0);
  load();
  launch_some(3);
}

static void no_locked_memory(char **arguments) {
  (void)arguments;
  limit(RLIMIT_MEMLOCK, 0);
  start();
  launch_some(3);
}

/* arguments[0]: a file to have as standard error, at its size limit; SIGXFSZ would end the program. */
static void full_file(char **arguments) {
  dup2(open(arguments[0], O_WRONLY | O_APPEND), 2);
  execl("/proc/self/exe", "program", "full file, inside", NULL);
}

static void inside_full_file(char **arguments) {
  (void)arguments;
  limit(RLIMIT_FSIZE, 0);
  start();
  launch_some(3);
}

static void broken_pipe(char **arguments) {
  (void)arguments;
  start();
  launch_some(3);
}

/* arguments[0]: a data file that gets the number of standard error. */
static void reuse_standard_error(char **arguments) {
  close(2);
  printf("data file is %d\n", open(arguments[0], O_RDWR | O_CREAT, 0600));
  start();
  launch_some(3);
}

/* From now on the `count` system calls get `action`. */
static void forbid(const int *calls, int count, unsigned action) {
  struct sock_filter filter[64];
  int n = 0;
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < count; i++) {
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
  }
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {(unsigned short)n, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    printf("seccomp: errno %d\n", errno);
}
#define FORBID(action, ...)                                       \
  do {                                                            \
    static const int calls[] = {__VA_ARGS__};                     \
    forbid(calls, (int)(sizeof calls / sizeof calls[0]), action); \
  } while (0)

static void sandbox_without_sockets(char **arguments) {
  (void)arguments;
  FORBID(SECCOMP_RET_ERRNO | EPERM, SYS_socket, SYS_connect, SYS_memfd_create);
  start();
  launch_some(3);
}

static void sandbox_without_futex(char **arguments) {
  (void)arguments;
  start();
  FORBID(SECCOMP_RET_ERRNO | EPERM, SYS_futex);
  for (int i = 0; i < 3; i++)
    CHECK(launch(1));
}

/* As those of old container runtimes, which know no newer calls. */
static void sandbox_of_old(char **arguments) {
  (void)arguments;
  FORBID(SECCOMP_RET_ERRNO | EPERM, SYS_statx, SYS_faccessat2, SYS_clone3, SYS_close_range, SYS_rseq, SYS_pidfd_open);
  start();
  launch_some(3);
}

/* Set up after the driver, as a program does that then works on what others gave it. Whatever the shim still needs is a
 * write to a descriptor or the word that it waits on. */
static void sandbox_that_kills(char **arguments) {
  (void)arguments;
  start();
  launch_some(3);
  FORBID(SECCOMP_RET_KILL_PROCESS, SYS_socket, SYS_connect, SYS_memfd_create, SYS_openat, SYS_open, SYS_clone, SYS_clone3,
         SYS_execve, SYS_statx, SYS_prctl, SYS_mprotect, SYS_kill, SYS_rt_sigaction);
  for (int i = 0; i < 3; i++)
    CHECK(launch(1));
  CHECK(cuCtxSynchronize());
}

/* What the shim asks the kernel for. `beyond`: only with a descriptor above it, for calls that the program needs as well. */
static const struct {
  const char *name;
  int number, beyond;
} calls_of_ours[] = {
    {"socket", SYS_socket, -1},     {"setsockopt", SYS_setsockopt, -1}, {"connect", SYS_connect, -1},
    {"sendto", SYS_sendto, -1},     {"recvmsg", SYS_recvmsg, -1},       {"fcntl", SYS_fcntl, 2},
    {"lseek", SYS_lseek, 2},        {"fstat", SYS_fstat, 2},            {"newfstatat", SYS_newfstatat, 2},
    {"write", SYS_write, 2},        {"ppoll", SYS_ppoll, -1},           {"rt_sigtimedwait", SYS_rt_sigtimedwait, -1},
    {"sched_yield", SYS_sched_yield, -1}, {"futex", SYS_futex, -1},     {"nanosleep", SYS_nanosleep, -1},
    {"futex and nanosleep", SYS_futex, -1},
};

/* arguments: one of these calls, the errno with which it fails from now on, "before" or "after" the driver was started. */
static void refuse(char **arguments) {
  unsigned which = 0;
  while (strcmp(calls_of_ours[which].name, arguments[0]) != 0)
    which++;
  const unsigned action = SECCOMP_RET_ERRNO | (unsigned)atoi(arguments[1]);
  const struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls_of_ours[which].number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, calls_of_ours[which].beyond < 0 ? 0 : (unsigned)calls_of_ours[which].beyond,
               0, calls_of_ours[which].beyond < 0 ? 0 : 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof filter[0], (struct sock_filter *)filter};
  const int late = strcmp(arguments[2], "after") == 0;
  if (late)
    start();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    printf("seccomp: errno %d\n", errno);
  if (strchr(arguments[0], ' '))
    FORBID(SECCOMP_RET_ERRNO | EPERM, SYS_nanosleep);
  if (!late)
    start();
  launch_some(3);
}

/* Less stack than a thread usually has, in the thread that launches. */
static void *launch_here(void *unused) {
  (void)unused;
  CHECK(cuCtxSetCurrent(context));
  launch_some(3);
  return NULL;
}

static void little_stack(char **arguments) {
  (void)arguments;
  pthread_attr_t attributes;
  pthread_t thread;
  start();
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, 32 << 10) != 0 || pthread_create(&thread, &attributes, launch_here, NULL) != 0)
    puts("no thread");
  else
    pthread_join(thread, NULL);
}

/* arguments[0]: an empty directory. The driver is there since the start; nothing else is. */
static void empty_root(char **arguments) {
  if (chroot(arguments[0]) != 0 || chdir("/") != 0)
    printf("chroot: errno %d\n", errno);
  start();
  launch_some(3);
}

/* arguments: an empty directory, fikitd's socket. As container runtimes do it: a root of their own, the socket mounted. */
static void container(char **arguments) {
  char place[4096];
  snprintf(place, sizeof place, "%s/fikitd.sock", arguments[0]);
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", arguments[0], "tmpfs", 0, NULL) != 0 || close(open(place, O_CREAT | O_WRONLY, 0600)) != 0 ||
      mount(arguments[1], place, NULL, MS_BIND, NULL) != 0 || chroot(arguments[0]) != 0 || chdir("/") != 0)
    printf("container: errno %d\n", errno);
  setenv("FIKIT_SOCKET", "/fikitd.sock", 1);
  start();
  launch_some(3);
}

int main(int argc, char **argv) {
  static const struct habit habits[] = {
      {"no descriptor", use_all_descriptors},
      {"one descriptor", leave_one_descriptor},
      {"descriptors later", retry_with_descriptors},
      {"close everything", close_everything},
      {"RLIMIT_AS", little_address_space},
      {"RLIMIT_NPROC", no_threads},
      {"RLIMIT_MEMLOCK", no_locked_memory},
      {"full file", full_file},
      {"full file, inside", inside_full_file},
      {"broken pipe", broken_pipe},
      {"standard error reused", reuse_standard_error},
      {"no sockets", sandbox_without_sockets},
      {"no futex", sandbox_without_futex},
      {"old sandbox", sandbox_of_old},
      {"kill", sandbox_that_kills},
      {"refuse", refuse},
      {"little stack", little_stack},
      {"chroot", empty_root},
      {"container", container},
      {NULL, NULL},
  };
  return run_habit(habits, argc, argv);
}
