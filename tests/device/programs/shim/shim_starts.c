/* Starts argv[2] with no arguments, in the way that argv[1] names; says its LD_PRELOAD first, where there is an argv[3]. Ways begin with "vfork " or not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void start(const char *way, char *path) {
  char *list[] = {path, NULL};
  const char *file = strrchr(path, '/') + 1;
  pid_t pid = 0;
  int status = 0;
  if (strcmp(way, "execl") == 0)
    execl(path, path, (char *)NULL);
  if (strcmp(way, "execle") == 0)
    execle(path, path, (char *)NULL, environ);
  if (strcmp(way, "execlp") == 0)
    execlp(file, path, (char *)NULL);
  if (strcmp(way, "execv") == 0)
    execv(path, list);
  if (strcmp(way, "execve") == 0)
    execve(path, list, environ);
  if (strcmp(way, "execvp") == 0)
    execvp(file, list);
  if (strcmp(way, "execvpe") == 0)
    execvpe(file, list, environ);
  if (strcmp(way, "fexecve") == 0)
    fexecve(open(path, O_RDONLY), list, environ);
  if (strcmp(way, "system") == 0)
    _exit(WEXITSTATUS(system(path)));
  if (strcmp(way, "posix_spawn") == 0 && posix_spawn(&pid, path, NULL, NULL, list, environ) != 0)
    _exit(4);
  if (strcmp(way, "posix_spawnp") == 0 && posix_spawnp(&pid, file, NULL, NULL, list, environ) != 0)
    _exit(4);
  if (!pid)
    _exit(5);
  waitpid(pid, &status, 0);
  _exit(WEXITSTATUS(status));
}

int main(int argc, char **argv) {
  int status = 0;
  if (argc > 3)
    printf("%s\n", getenv("LD_PRELOAD"));
  fflush(stdout);
  if (strncmp(argv[1], "vfork ", 6) != 0)
    start(argv[1], argv[2]);
  pid_t pid = vfork();
  if (pid == 0)
    start(argv[1] + 6, argv[2]);
  waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}
