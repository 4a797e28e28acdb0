/* What the plugin needs of fikit.toml, which has one owner for each fact. */
#ifndef FIKIT_SITE_H
#define FIKIT_SITE_H

#include <stdbool.h>

#include "fikit_config.h"

/* The line default_priority of [slurm] in a text of fikit.toml, by the rule that slurmctld's fikit_site.lua has (not by all of
 * TOML's: fikitd refuses a file that writes it in another way). False, and *priority as it was, where there is none. */
bool fikit_toml_priority(const char *text, int *priority);

/* The priority of a sharing job that names none: fikit.toml's, as slurmctld approved it, else normal; never above it what
 * plugstack.conf may still say. */
int fikit_site_priority(const struct fikit_config *config);

#endif
