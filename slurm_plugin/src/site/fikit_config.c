#include "fikit_config.h"

#include <dlfcn.h>
#include <libgen.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>

#include "values/fikit_priority.h"

static struct fikit_config config = {
    .enabled = true,
    .systemd = true,
    .report = true,
    .default_priority = -1,
    .run_dir = "/run/fikit",
};

/* The wheel keeps native/slurm/spank_fikit.so beside native/libfikit_shim.so. */
static void find_shim(void) {
  Dl_info self;
  char path[PATH_MAX];
  if (!dladdr(&config, &self) || !self.dli_fname)
    return;
  snprintf(path, sizeof path, "%s", self.dli_fname);
  snprintf(config.shim, sizeof config.shim, "%s/libfikit_shim.so", dirname(dirname(path)));
}

static bool choose(const char *value, const char *yes, const char *no, bool *flag) {
  *flag = strcmp(value, yes) == 0;
  return *flag || strcmp(value, no) == 0;
}

static void complain(const char *word, const char *hint) {
  /* slurmstepd runs once per step and its log is the job's: once in slurmd's log and in srun's output is enough. */
  if (spank_context() != S_CTX_REMOTE)
    slurm_error("fikit: ignoring \"%s\" in plugstack.conf: %s", word, hint);
}

/* The word's value is kept by reference: Slurm keeps the words as long as the plugin. */
static void apply(const char *word) {
  const char *value = strchr(word, '=');
  if (!value) {
    complain(word, "words have the form key=value");
    return;
  }
  const size_t key = (size_t)(value++ - word);
#define KEY(name) (key == sizeof(name) - 1 && memcmp(word, name, key) == 0)
  if (KEY("enabled")) {
    if (!choose(value, "yes", "no", &config.enabled))
      complain(word, "use yes or no");
  } else if (KEY("systemd")) {
    if (!choose(value, "auto", "off", &config.systemd))
      complain(word, "use auto or off");
  } else if (KEY("report")) {
    if (!choose(value, "summary", "off", &config.report))
      complain(word, "use summary or off");
  } else if (KEY("default_priority")) {
    if (!fikit_parse_priority(value, &config.default_priority))
      complain(word, "use high, normal, low, or 0 (highest) to 9");
  } else if (KEY("shim")) {
    if (value[0] == '/')
      snprintf(config.shim, sizeof config.shim, "%s", value);
    else
      complain(word, "give an absolute path");
  } else if (KEY("run_dir") || KEY("daemon") || KEY("config")) {
    if (value[0] == '/')
      *(KEY("run_dir") ? &config.run_dir : KEY("daemon") ? &config.daemon : &config.fikit_toml) = value;
    else
      complain(word, "give an absolute path");
  } else {
    complain(word, "the keys are enabled, run_dir, shim, daemon, config, default_priority, systemd and report");
  }
#undef KEY
}

const struct fikit_config *fikit_config(int ac, char **av) {
  static bool loaded;
  if (!loaded) {
    loaded = true;
    find_shim();
    for (int i = 0; i < ac; i++)
      apply(av[i]);
  }
  return &config;
}
