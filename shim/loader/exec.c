/*
 * The job's entry in LD_PRELOAD has $PLATFORM in it, by which each program's own loader finds a library that it can load (shim/CMakeLists.txt). A
 * strict script that reads its environment back ends at that name. So inside a program the entry is the library's path, without $, and what the
 * program starts is told the loader's form again. Where that cannot be (a start by a system call of the program's own, very many variables), a
 * child gets the path: it loads the shim all the same, unless it is a program of 32 bits, whose loader says in one line that it cannot.
 *
 * The hooks run in children of vfork and in signal handlers: they allocate nothing, take no lock, and need 8 KiB of stack at most.
 */
#include "loader/exec.h"
#include "loader/loader.h"

#include <alloca.h>
#include <dlfcn.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define HERE "x86_64"
#elif defined(__aarch64__)
#define HERE "aarch64"
#endif

enum { PATH_BYTES = 1024, LINE_BYTES = 3072, MOST_VARIABLES = 512 };
static const char variable[] = "LD_PRELOAD=", platform[] = "$PLATFORM/";

/* DIR/libfikit_shim.so, and DIR/$PLATFORM/libfikit_shim.so; empty: children are told what the program says. */
static char plain[PATH_BYTES], told[PATH_BYTES];

typedef int exec_fn(const char *, char *const[], char *const[]);
typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[], char *const[]);
static exec_fn *next_execve, *next_execvpe;
static int (*next_fexecve)(int, char *const[], char *const[]);
static spawn_fn *next_spawn, *next_spawnp;

static bool ends_entry(char c) {
  return c == '\0' || c == ':' || c == ' ';
}

/* Where `entry` stands in the list; NULL where it does not. */
static char *entry_in(char *list, const char *entry) {
  const size_t length = strlen(entry);
  for (char *at = list; (at = strstr(at, entry)); at++)
    if ((at == list || ends_entry(at[-1])) && ends_entry(at[length]))
      return at;
  return NULL;
}

static char *list_in(char *const variables[]) {
  for (; variables && *variables; variables++)
    if (strncmp(*variables, variable, sizeof variable - 1) == 0)
      return *variables + sizeof variable - 1;
  return NULL;
}

/* The two forms for a library whose directory DIR is `length` bytes of `own`, with the slash. */
static void set_forms(const char *own, size_t length, const char *file) {
  snprintf(plain, sizeof plain, "%.*s%s", (int)length, own, file);
  snprintf(told, sizeof told, "%.*s%s%s", (int)length, own, platform, file);
}

static void find_functions(void) {
  if (next_spawnp)
    return;
  *(void **)&next_execve = fikit_lookup(RTLD_NEXT, "execve");
  *(void **)&next_execvpe = fikit_lookup(RTLD_NEXT, "execvpe");
  *(void **)&next_fexecve = fikit_lookup(RTLD_NEXT, "fexecve");
  *(void **)&next_spawn = fikit_lookup(RTLD_NEXT, "posix_spawn");
  *(void **)&next_spawnp = fikit_lookup(RTLD_NEXT, "posix_spawnp");
}

void fikit_exec_at_start(void) {
  const char *own = fikit_object_of((const void *)fikit_exec_at_start), *slash = own ? strrchr(own, '/') : NULL;
  char *list = list_in(environ), *entry;
  find_functions();
  if (!list || !slash || strlen(own) + sizeof platform + sizeof HERE > PATH_BYTES)
    return;
  const char *directory = slash; /* the last one of the path */
  while (directory > own && directory[-1] != '/')
    directory--;
  set_forms(own, (size_t)(directory - own), slash + 1);
  if (directory > own && (entry = entry_in(list, told))) {
    char *from = entry + (directory - own) + sizeof platform - 1;
    memmove(from - (sizeof platform - 1), from, strlen(from) + 1);
    return;
  }
  char here[PATH_BYTES];
  snprintf(here, sizeof here, "%.*s/" HERE "%s", (int)(slash - own), own, slash);
  set_forms(own, (size_t)(slash + 1 - own), slash + 1);
  if (!entry_in(list, plain) || access(here, R_OK) != 0)
    plain[0] = '\0';
}

static size_t number_of(char *const variables[]) {
  size_t count = 0;
  while (variables[count])
    count++;
  return count;
}

static size_t line_bytes(const char *list) {
  return sizeof variable + strlen(list) + sizeof platform;
}

/* What a copy of the variables needs in which the entry is told; 0: they stay as they are. */
static size_t room_for(char *const variables[]) {
  char *list = plain[0] ? list_in(variables) : NULL;
  if (!list || !entry_in(list, plain))
    return 0;
  const size_t line = line_bytes(list), count = number_of(variables);
  return line > LINE_BYTES || count > MOST_VARIABLES ? 0 : (count + 1) * sizeof *variables + line;
}

/* The variables, with the entry told, in `bytes` at `place`; as they are where another thread has made more of them meanwhile. */
static char *const *copy(char *const variables[], size_t bytes, void *place) {
  char *list = bytes ? list_in(variables) : NULL;
  const char *entry = list ? entry_in(list, plain) : NULL;
  if (!entry)
    return variables;
  const size_t count = number_of(variables), pointers = (count + 1) * sizeof *variables;
  if (pointers + line_bytes(list) > bytes)
    return variables;
  char **copied = place, *line = (char *)place + pointers;
  snprintf(line, bytes - pointers, "%s%.*s%s%s", variable, (int)(entry - list), list, told, entry + strlen(plain));
  for (size_t i = 0; i < count; i++)
    copied[i] = variables[i] + sizeof variable - 1 == list ? line : variables[i];
  copied[count] = NULL;
  return copied;
}

/* In the caller's frame, which is gone when the program is another one. */
#define TOLD(variables, room) copy(variables, room, alloca((room) + 1))

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int execve(const char *path, char *const arguments[], char *const variables[]) {
  find_functions();
  const size_t room = room_for(variables);
  return next_execve(path, arguments, TOLD(variables, room));
}

EXPORTED int execv(const char *path, char *const arguments[]) {
  find_functions();
  const size_t room = room_for(environ);
  return next_execve(path, arguments, TOLD(environ, room));
}

EXPORTED int execvpe(const char *file, char *const arguments[], char *const variables[]) {
  find_functions();
  const size_t room = room_for(variables);
  return next_execvpe(file, arguments, TOLD(variables, room));
}

EXPORTED int execvp(const char *file, char *const arguments[]) {
  find_functions();
  const size_t room = room_for(environ);
  return next_execvpe(file, arguments, TOLD(environ, room));
}

EXPORTED int fexecve(int fd, char *const arguments[], char *const variables[]) {
  find_functions();
  const size_t room = room_for(variables);
  return next_fexecve(fd, arguments, TOLD(variables, room));
}

EXPORTED int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                         char *const arguments[], char *const variables[]) {
  find_functions();
  const size_t room = room_for(variables);
  return next_spawn(pid, path, actions, attributes, arguments, TOLD(variables, room));
}

EXPORTED int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                          char *const arguments[], char *const variables[]) {
  find_functions();
  const size_t room = room_for(variables);
  return next_spawnp(pid, file, actions, attributes, arguments, TOLD(variables, room));
}

/* How many arguments there are behind the first, the NULL at their end among them. */
static size_t count_of(va_list rest) {
  size_t count = 1;
  while (va_arg(rest, char *))
    count++;
  return count;
}

/* The first and `count` more; `rest` stands behind them then. */
static char **list_of(char **list, const char *first, size_t count, va_list *rest) {
  list[0] = (char *)first;
  for (size_t i = 1; i <= count; i++)
    list[i] = va_arg(*rest, char *);
  return list;
}

/* `list`: the arguments of the function that has `first` as its last named one; `rest` stands behind them. */
#define LIST(list, first, rest)                                                    \
  va_start(rest, first);                                                           \
  const size_t count = count_of(rest);                                             \
  va_end(rest);                                                                    \
  va_start(rest, first);                                                           \
  char **list = list_of(alloca((count + 1) * sizeof(char *)), first, count, &(rest)) /* NOLINT(bugprone-macro-parentheses): a name */

EXPORTED int execl(const char *path, const char *first, ...) {
  va_list rest;
  LIST(list, first, rest);
  va_end(rest);
  return execv(path, list);
}

EXPORTED int execlp(const char *file, const char *first, ...) {
  va_list rest;
  LIST(list, first, rest);
  va_end(rest);
  return execvp(file, list);
}

EXPORTED int execle(const char *path, const char *first, ...) {
  va_list rest;
  LIST(list, first, rest);
  char *const *variables = va_arg(rest, char *const *);
  va_end(rest);
  return execve(path, list, variables);
}
