/* A program as any: it looks functions up, forks, starts a thread. Prints "fine" where everything is as its own C library
 * has it; otherwise what is not. Built with musl, and for 32 bits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((visibility("default"))) int atoi(const char *text) {
  return text[0] == '4' ? 42 : -1;
}

static int failed(const char *what) {
  printf("%s\n", what);
  return 1;
}

static void *in_thread(void *argument) {
  return argument;
}

int main(int argc, char **argv) {
  int (*next_atoi)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "atoi");
  if (!next_atoi || next_atoi("7") != 7)
    return failed("dlsym does not find the next function");
  if (dlsym(RTLD_DEFAULT, "no_such_function"))
    return failed("dlsym finds what nobody has");
  void *(*lookup)(void *, const char *, const char *) =
      (void *(*)(void *, const char *, const char *))dlsym(RTLD_DEFAULT, "dlvsym");
  if (lookup && lookup(RTLD_DEFAULT, "no_such_function", "NO_VERSION"))
    return failed("dlvsym finds what nobody has");
  void *self = dlopen(NULL, RTLD_NOW);
  if (!self || dlsym(self, "atoi") != (void *)atoi)
    return failed("the program does not find its own function");
  pthread_t thread;
  void *result = NULL;
  if (pthread_create(&thread, NULL, in_thread, argv) || pthread_join(thread, &result) || result != argv)
    return failed("no thread");
  int status = 1;
  const pid_t child = fork();
  if (child == 0)
    _exit(0);
  if (waitpid(child, &status, 0) != child || status)
    return failed("no child");
  printf("fine\n");
  fflush(stdout);
  if (argc > 1) /* the next program of a chain */
    return execv(argv[1], argv + 1);
  return 0;
}
