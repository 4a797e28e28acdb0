/* The few functions of Slurm that the plugin calls, for tests without Slurm: logs into a buffer, knows no job. */
#include <errno.h>
#include <slurm/spank.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char fake_log[8192];
int fake_context = S_CTX_SLURMD;
char fake_option_name[64];
char fake_option_value[256];

static void record(const char *format, va_list arguments) {
  const size_t used = strlen(fake_log);
  vsnprintf(fake_log + used, sizeof fake_log - used - 1, format, arguments);
  strcat(fake_log, "\n");
}

#define LOGGER(name)                     \
  void name(const char *format, ...) {   \
    va_list arguments;                   \
    va_start(arguments, format);         \
    record(format, arguments);           \
    va_end(arguments);                   \
  }
LOGGER(slurm_error)
LOGGER(slurm_verbose)
LOGGER(slurm_spank_log)
void slurm_debug(const char *format, ...) { (void)format; }

spank_context_t spank_context(void) { return (spank_context_t)fake_context; }

static struct spank_option *registered[16];

spank_err_t spank_option_register(spank_t sp, struct spank_option *option) {
  (void)sp;
  for (size_t i = 0; i < sizeof registered / sizeof *registered; i++) {
    if (!registered[i]) {
      registered[i] = option;
      break;
    }
  }
  return ESPANK_SUCCESS;
}

/* As slurmstepd does for an option that it finds in a step's environment. */
void fake_give(const char *name, const char *value) {
  for (size_t i = 0; registered[i]; i++) {
    if (strcmp(registered[i]->name, name) == 0)
      registered[i]->cb(registered[i]->val, value, 1);
  }
}

/* As spank.c looks for it in a prolog: under its own name, then with the SPANK_ that slurmd has put before it. */
static char *in_environment(const char *option) {
  char name[128];
  char *value;
  snprintf(name, sizeof name, "SPANK__SLURM_SPANK_OPTION_fikit_%s", option);
  for (char *c = name; *c; c++) {
    if (!isalnum((unsigned char)*c))
      *c = '_';
  }
  value = getenv(name + strlen("SPANK_"));
  return value ? value : getenv(name);
}

spank_err_t spank_option_getopt(spank_t sp, struct spank_option *option, char **value) {
  (void)sp;
  *value = strcmp(option->name, fake_option_name) == 0 ? fake_option_value : in_environment(option->name);
  return *value ? ESPANK_SUCCESS : ESPANK_ERROR;
}

unsigned fake_step;
unsigned fake_tasks = 1;

/* Every job is job 12 of user 33 in group 44. */
static unsigned item_value(spank_item_t item) {
  switch (item) {
  case S_JOB_ID: return 12;
  case S_JOB_UID: return 33;
  case S_JOB_GID: return 44;
  case S_JOB_STEPID: return fake_step;
  default: return fake_tasks;
  }
}

spank_err_t spank_get_item(spank_t sp, spank_item_t item, ...) {
  va_list arguments;
  va_start(arguments, item);
  *va_arg(arguments, unsigned *) = item_value(item);
  va_end(arguments);
  (void)sp;
  return ESPANK_SUCCESS;
}

/* The task's environment, "NAME=value" each; an empty entry is free. */
char fake_environment[16][512];

static char *entry_of(const char *name) {
  const size_t length = strlen(name);
  for (int i = 0; i < 16; i++) {
    char *entry = fake_environment[i];
    if (length == 0 ? entry[0] == '\0' : strncmp(entry, name, length) == 0 && entry[length] == '=')
      return entry;
  }
  return NULL;
}

spank_err_t spank_getenv(spank_t sp, const char *name, char *value, int size) {
  const char *entry = entry_of(name);
  (void)sp;
  if (!entry)
    return ESPANK_ENV_NOEXIST;
  return snprintf(value, (size_t)size, "%s", strchr(entry, '=') + 1) < size ? ESPANK_SUCCESS : ESPANK_NOSPACE;
}

spank_err_t spank_unsetenv(spank_t sp, const char *name) {
  char *entry = entry_of(name);
  (void)sp;
  if (entry)
    entry[0] = '\0';
  return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t sp, const char *name, const char *value, int overwrite) {
  (void)overwrite;
  spank_unsetenv(sp, name);
  snprintf(entry_of(""), sizeof fake_environment[0], "%s=%s", name, value);
  return ESPANK_SUCCESS;
}

/* What travels with the job, a line each. */
char fake_sent[4096];

spank_err_t spank_job_control_setenv(spank_t sp, const char *name, const char *value, int overwrite) {
  const size_t used = strlen(fake_sent);
  (void)sp;
  (void)overwrite;
  snprintf(fake_sent + used, sizeof fake_sent - used, "%s=%s\n", name, value);
  return ESPANK_SUCCESS;
}

/* In place of fork() where a test wants it (-Dfork=fake_fork_that_fails): the node has no processes left. */
int fake_fork_that_fails(void) {
  errno = EAGAIN;
  return -1;
}
