#include "fikit_daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fikit_control.h"

#define PING_MS 500
#define START_MS 3000
#define POLL_MS 20

/* Root's programs inherit nothing from slurmd or the job: neither PATH nor LD_PRELOAD nor locale. */
static char *const clean_environment[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                          "LANG=C.UTF-8", NULL};

static bool answers(const struct fikit_config *config, int timeout_ms) {
  return fikit_control(config->run_dir, "ping", timeout_ms, NULL, 0);
}

static void close_from(unsigned first) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0U, 0U) == 0)
    return;
#endif
  struct rlimit limit;
  const rlim_t last = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 65536 ? limit.rlim_cur : 65536;
  for (rlim_t fd = first; fd < last; fd++)
    close((int)fd);
}

/* slurmd protects itself from the OOM killer; what it starts must not be protected. */
static void reset_oom_score(void) {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY);
  if (fd < 0)
    return;
  if (write(fd, "0", 1) < 0)
    slurm_verbose("fikit: couldn't reset oom_score_adj: %m");
  close(fd);
}

static void redirect(const char *log_path) {
  const int null = open("/dev/null", O_RDWR);
  const int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0644);
  if (null < 0)
    return;
  dup2(null, STDIN_FILENO);
  dup2(log < 0 ? null : log, STDOUT_FILENO);
  dup2(log < 0 ? null : log, STDERR_FILENO);
}

static void reset_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (int number = 1; number < NSIG; number++)
    signal(number, SIG_DFL);
}

/* In a child: becomes `argv`, or ends with 127. */
static _Noreturn void become(char *const argv[], const char *log_path) {
  umask(022);
  if (chdir("/") != 0)
    _exit(127);
  reset_signals();
  reset_oom_score();
  redirect(log_path);
  close_from(3);
  execve(argv[0], argv, clean_environment);
  _exit(127);
}

static int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR)
      return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool start_unit(const struct fikit_config *config) {
  char *const argv[] = {"/usr/bin/systemctl", "--quiet", "start", "--no-block", "fikitd.service", NULL};
  if (!config->systemd || access("/run/systemd/system", F_OK) != 0)
    return false;
  const pid_t child = fork();
  if (child == 0)
    become(argv, "/dev/null");
  return child > 0 && wait_for(child) == 0;
}

/* slurmd kills the prolog's process group and waits until nobody has the prolog's output open: the daemon leaves the
 * session, and the process between the two ends at once so that init inherits it. */
static bool start_process(const struct fikit_config *config) {
  char log_path[PATH_MAX];
  /* execve() takes char * for historical reasons and changes nothing. */
  char *const argv[] = {(char *)config->daemon, "--run-dir", (char *)config->run_dir,
                        config->fikit_toml ? "--config" : NULL, (char *)config->fikit_toml, NULL};
  snprintf(log_path, sizeof log_path, "%s/fikitd.log", config->run_dir);
  if (!config->daemon) {
    slurm_error("fikit: no fikitd answers in %s: set daemon= in plugstack.conf or enable fikitd.service; jobs run unmanaged",
                config->run_dir);
    return false;
  }
  if (access(config->daemon, X_OK) != 0) {
    slurm_error("fikit: couldn't start %s: %m: set daemon= in plugstack.conf; jobs run unmanaged", config->daemon);
    return false;
  }
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    const pid_t grandchild = fork();
    if (grandchild == 0)
      become(argv, log_path);
    _exit(grandchild < 0 ? errno : 0);
  }
  const int error = child < 0 ? errno : wait_for(child);
  if (error)
    slurm_error("fikit: couldn't start %s: %s: jobs run unmanaged until it can be started", config->daemon,
                error > 0 ? strerror(error) : "its process was killed");
  return error == 0;
}

/* After a reboot many prologs find no fikitd at once: one of them starts it. Its lock ends with it, however it ends.
 * False when it is another's turn. */
static bool take_turn(const struct fikit_config *config, int *turn) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/start.lock", config->run_dir);
  *turn = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  return *turn < 0 || flock(*turn, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

static bool wait_for_answer(const struct fikit_config *config) {
  const int64_t deadline_ms = fikit_now_ms() + START_MS;
  while (fikit_now_ms() < deadline_ms) {
    if (answers(config, PING_MS))
      return true;
    poll(NULL, 0, POLL_MS);
  }
  slurm_error("fikit: fikitd did not answer on %s/control.sock within %d ms: see its log (%s/fikitd.log); jobs run "
              "unmanaged until it does",
              config->run_dir, START_MS, config->run_dir);
  return false;
}

bool fikit_daemon_ensure(const struct fikit_config *config) {
  int turn = -1;
  if (answers(config, PING_MS))
    return true;
  const bool starts = start_unit(config) || !take_turn(config, &turn) || start_process(config);
  const bool answered = starts && wait_for_answer(config);
  if (turn >= 0)
    close(turn);
  return answered;
}
