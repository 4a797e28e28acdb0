/* What the administrator wrote behind the plugin's name in plugstack.conf, as key=value words. */
#ifndef FIKIT_CONFIG_H
#define FIKIT_CONFIG_H

#include <limits.h>
#include <stdbool.h>

struct fikit_config {
  bool enabled;             /* enabled=yes|no */
  bool systemd;             /* systemd=auto|off: start fikitd.service where systemd runs */
  bool report;              /* report=summary|off: the line at the end of a job's output */
  int default_priority;     /* default_priority=, which is fikit.toml's business now; -1 = not there */
  const char *run_dir;      /* run_dir=: sockets and job records */
  const char *daemon;       /* daemon=: the fikitd program; NULL = only systemd starts it */
  const char *fikit_toml;   /* config=: passed to fikitd; NULL = fikitd's own default */
  char shim[PATH_MAX];      /* shim=: default is libfikit_shim.so in the folder above this plugin's */
};

/* Parses the words on the first call and returns the same configuration ever after. A word that is wrong is reported
 * in one sentence and skipped: a typing error must not stop slurmd, srun or a job. */
const struct fikit_config *fikit_config(int ac, char **av);

#endif
