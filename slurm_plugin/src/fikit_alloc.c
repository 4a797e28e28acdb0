#include <stdlib.h>
#include <string.h>

#include "fikit_args.h"
#include "fikit_contexts.h"
#include "fikit_preload.h"

/* sbatch and srun typed inside a managed job export their environment to the new job, which may be exclusive or run on
 * a node without the shim: what task_init of the outer job added stays behind. So does the outer job's shard count, by
 * which the new job would look like a sharing one; slurmstepd sets the right one. */
static void strip_outer_job(const struct fikit_config *config) {
  const char *list = getenv("LD_PRELOAD");
  const char *file = strrchr(config->shim, '/');
  unsetenv("FIKIT_SOCKET");
  unsetenv("SLURM_SHARDS_ON_NODE");
  if (!list || !file || !strstr(list, file))
    return;
  const size_t size = strlen(list) + 1;
  char *rest = malloc(size);
  if (rest && fikit_preload_without(list, config->shim, rest, size)) {
    if (*rest)
      setenv("LD_PRELOAD", rest, 1);
    else
      unsetenv("LD_PRELOAD");
  }
  free(rest);
}

void fikit_alloc_post_opt(spank_t sp, const struct fikit_config *config) {
  fikit_args_from_environment(sp);
  strip_outer_job(config);
}
