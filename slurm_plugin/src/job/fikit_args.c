#include "fikit_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values/fikit_priority.h"
#include "values/fikit_quantities.h"

#define CARRIED_NAME_BYTES (SPANK_OPTION_MAXLEN + 64)

enum argument { PRIORITY, MEASURE, MEM, MEM_HOST, PROFILE, MAX_SLOWDOWN, MAX_DELAY, ARGUMENTS };

static int on_option(int val, const char *value, int remote);

/* Slurm wraps usage text at 30 columns. */
static struct spank_option table[ARGUMENTS] = {
    [PRIORITY] = {"fikit-priority", "PRIORITY",
                  "[fikit] share the GPU with other jobs at this priority: high, normal, low, 0 (highest) to 9, or auto: of "
                  "such jobs on a GPU the one that is expected to end sooner goes first; auto:LOW-HIGH: between these", 1,
                  PRIORITY, on_option},
    [MEASURE] = {"fikit-measure", NULL,
                 "[fikit] measure this job's kernels, alone on its GPU, and store the profile for later runs", 0, MEASURE,
                 on_option},
    [MEM] = {"fikit-mem", "SIZE", "[fikit] GPU memory of a sharing job: 20G, 512M, 1T; a plain number is MB as for --mem",
             1, MEM, on_option},
    [MEM_HOST] = {"fikit-mem-host", "SIZE",
                  "[fikit] so much more memory than --fikit-mem, which lies in host memory while it is not used; for "
                  "jobs below high, where the site allows it",
                  1, MEM_HOST, on_option},
    [PROFILE] = {"fikit-profile", "NAME", "[fikit] name of the profile to use or to store, instead of one by command", 1,
                 PROFILE, on_option},
    [MAX_SLOWDOWN] = {"fikit-max-slowdown", "SHARE",
                      "[fikit] how much longer the job may take because of lower ones on its GPU: 5%", 1, MAX_SLOWDOWN,
                      on_option},
    [MAX_DELAY] = {"fikit-max-delay", "TIME", "[fikit] the longest single delay by lower jobs on its GPU: 200us, 1.5ms", 1,
                   MAX_DELAY, on_option},
};

static const char *const environment[ARGUMENTS] = {
    [PRIORITY] = "FIKIT_PRIORITY",
    [MEASURE] = "FIKIT_MEASURE",
    [MEM] = "FIKIT_MEM",
    [MEM_HOST] = "FIKIT_MEM_HOST",
    [PROFILE] = "FIKIT_PROFILE",
    [MAX_SLOWDOWN] = "FIKIT_MAX_SLOWDOWN",
    [MAX_DELAY] = "FIKIT_MAX_DELAY",
};

/* Sent with a job none of whose options was typed; read by fikit_options.lua. Where some were: the names of the others. */
#define ONLY_WISHED "FIKIT_ONLY_WISHED"
#define VARIABLES "FIKIT_VARIABLES"

static const char *const expected[ARGUMENTS] = {
    [PRIORITY] = "use high, normal, low, 0 (highest) to 9, auto or auto:LOW-HIGH",
    [MEASURE] = "use 1 or 0",
    [MEM] = "use a size such as 20G, 512M or 1T",
    [MEM_HOST] = "use a size such as 20G, 512M or 1T",
    [PROFILE] = "use 1 to 64 letters, digits, dots, underscores or dashes, without a dot in front",
    [MAX_SLOWDOWN] = "use a share of 0 to 100 % such as 5% or 0.05",
    [MAX_DELAY] = "use a time such as 200us, 1.5ms or 2s",
};

/* SPANK keeps nothing for a plugin between callback and hook: the process's own state does. */
static struct fikit_options seen = {.priority = -1, .max_slowdown_ppm = -1, .max_delay_ns = -1};
static bool given[ARGUMENTS];

static bool parse_flag(const char *text, bool *flag) {
  *flag = strcmp(text, "1") == 0 || strcasecmp(text, "yes") == 0 || strcasecmp(text, "true") == 0;
  return *flag || strcmp(text, "0") == 0 || strcasecmp(text, "no") == 0 || strcasecmp(text, "false") == 0;
}

static bool parse_profile(const char *text, char *profile) {
  const size_t length = strlen(text);
  if (length == 0 || length >= FIKIT_PROFILE_BYTES || text[0] == '.')
    return false;
  if (strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != length)
    return false;
  memcpy(profile, text, length + 1);
  return true;
}

static bool parse_wish(const char *text, struct fikit_options *options) {
  const bool automatic = fikit_parse_range(text, &options->auto_highest, &options->auto_lowest);
  if (!automatic && !fikit_parse_priority(text, &options->priority))
    return false;
  options->automatic = automatic;
  if (automatic)
    options->priority = -1;
  return true;
}

static bool parse(enum argument argument, const char *value, struct fikit_options *options) {
  switch (argument) {
  case PRIORITY: return parse_wish(value, options);
  case MEASURE: return parse_flag(value, &options->measure);
  case MEM: return fikit_parse_size(value, &options->mem_bytes);
  case MEM_HOST: return fikit_parse_size(value, &options->mem_host_bytes);
  case PROFILE: return parse_profile(value, options->profile);
  case MAX_SLOWDOWN: return fikit_parse_share(value, &options->max_slowdown_ppm);
  case MAX_DELAY: return fikit_parse_time(value, &options->max_delay_ns);
  default: return false;
  }
}

/* Ends srun, sbatch or salloc before anything is submitted. Returning an error instead would make Slurm add two
 * sentences of its own that say less. */
static _Noreturn void refuse(const char *what, const char *value, enum argument argument) {
  slurm_error("fikit: %s=%s is not valid: %s", what, value, expected[argument]);
  exit(1);
}

static bool submitting(void) {
  const spank_context_t context = spank_context();
  return context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR;
}

/* Called once per source (#SBATCH line, environment, command line), the later one wins. In a step it decides nothing: there the
 * job's record counts. */
static int on_option(int val, const char *value, int remote) {
  (void)remote;
  const enum argument argument = (enum argument)val;
  /* An option without argument arrives on the node as the text "(null)". */
  const char *text = argument == MEASURE ? "1" : value;
  if (text && parse(argument, text, &seen)) {
    given[argument] = true;
    return 0;
  }
  if (submitting()) {
    char option[SPANK_OPTION_MAXLEN + 3];
    snprintf(option, sizeof option, "--%s", table[argument].name);
    refuse(option, text ? text : "", argument);
  }
  /* Whoever bypassed the check above has a job without that option; an error here would drain the node. */
  slurm_error("fikit: ignoring --%s: %s", table[argument].name, expected[argument]);
  return 0;
}

void fikit_args_register(spank_t sp) {
  for (int i = 0; i < ARGUMENTS; i++) {
    if (spank_option_register(sp, &table[i]) != ESPANK_SUCCESS)
      slurm_error("fikit: couldn't register option --%s", table[i].name);
  }
}

bool fikit_any_option(const struct fikit_options *options) {
  return options->priority >= 0 || options->automatic || options->measure || options->mem_bytes || options->mem_host_bytes ||
         options->profile[0] || options->max_slowdown_ppm >= 0 || options->max_delay_ns >= 0;
}

struct fikit_options fikit_args_of_job(spank_t sp) {
  struct fikit_options options = FIKIT_NO_OPTIONS;
  for (int i = 0; i < ARGUMENTS; i++) {
    char *value = NULL;
    if (spank_option_getopt(sp, &table[i], &value) != ESPANK_SUCCESS)
      continue;
    const char *text = i == MEASURE ? "1" : value;
    if (!text || !parse((enum argument)i, text, &options))
      slurm_error("fikit: ignoring --%s: %s", table[i].name, expected[i]);
  }
  return options;
}

/* What is before `mem_host` in the name of FIKIT_MEM_HOST. */
#define CARRIED "_SLURM_SPANK_OPTION_fikit_fikit_"

/* The name under which Slurm itself carries the option to the node (spank.c), with "-" written as "_". In the job's own
 * environment "SLURM_SPANK_" is before it, and steps inherit the option by that. */
static void carried_name(enum argument argument, const char *prefix, char *name, size_t size) {
  const int length = snprintf(name, size, "%s_SLURM_SPANK_OPTION_fikit_", prefix);
  snprintf(name + length, size - (size_t)length, "%s", table[argument].name);
  for (char *c = name; *c; c++) {
    if (*c == '-')
      *c = '_';
  }
}

void fikit_args_forget_outer_job(void) {
  for (int i = 0; i < ARGUMENTS; i++) {
    char name[CARRIED_NAME_BYTES];
    carried_name((enum argument)i, "SLURM_SPANK_", name, sizeof name);
    unsetenv(name);
  }
}

void fikit_args_from_environment(spank_t sp) {
  bool typed = false;
  char variables[ARGUMENTS * SPANK_OPTION_MAXLEN] = "";
  for (int i = 0; i < ARGUMENTS; i++)
    typed = typed || given[i];
  for (int i = 0; i < ARGUMENTS; i++) {
    const char *value = getenv(environment[i]);
    if (given[i] || !value || !*value)
      continue;
    if (!parse((enum argument)i, value, &seen))
      refuse(environment[i], value, (enum argument)i);
    if (i == MEASURE && !seen.measure)
      continue;
    char name[CARRIED_NAME_BYTES];
    carried_name((enum argument)i, "", name, sizeof name);
    if (spank_job_control_setenv(sp, name, value, 1) != ESPANK_SUCCESS)
      slurm_error("fikit: couldn't pass %s on to the job: use --%s instead", environment[i], table[i].name);
    const size_t length = strlen(variables);
    snprintf(variables + length, sizeof variables - length, "%s%s", length ? " " : "", name + sizeof CARRIED - 1);
  }
  if (!variables[0])
    return;
  /* A variable is set once for all jobs of a user: those that cannot share a GPU go without it. */
  if (spank_job_control_setenv(sp, typed ? VARIABLES : ONLY_WISHED, typed ? variables : "1", 1) != ESPANK_SUCCESS)
    slurm_verbose("fikit: couldn't say that FIKIT_* variables are only wishes");
}
