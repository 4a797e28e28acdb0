/*
 * The SPANK plugin's hooks. Slurm loads the plugin into srun, sbatch, salloc, slurmd, slurmstepd and the prolog's and
 * epilog's process: each hook calls the file of its context.
 *
 * All of them return 0. From most hooks Slurm answers an error by draining the node while srun returns success.
 */
#include <slurm/spank.h>
#include <stdlib.h>

#include "contexts/fikit_contexts.h"
#include "job/fikit_args.h"
#include "site/fikit_config.h"

SPANK_PLUGIN(fikit, 1)

int slurm_spank_init(spank_t sp, int ac, char **av) {
  /* With enabled=no the options stay, without effect: scripts that have them must go on working. */
  (void)fikit_config(ac, av);
  if (spank_context() == S_CTX_ALLOCATOR && getenv("SLURM_JOB_ID"))
    fikit_args_forget_outer_job();
  if (spank_context() == S_CTX_LOCAL)
    fikit_alloc_memory_as_asked();
  fikit_args_register(sp);
  return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av) {
  const struct fikit_config *config = fikit_config(ac, av);
  if (!config->enabled)
    return 0;
  switch (spank_context()) {
  case S_CTX_LOCAL:
  case S_CTX_ALLOCATOR: fikit_alloc_post_opt(sp, config); break;
  case S_CTX_REMOTE: fikit_step_post_opt(sp, config); break;
  default: break;
  }
  return 0;
}

int slurm_spank_job_prolog(spank_t sp, int ac, char **av) {
  const struct fikit_config *config = fikit_config(ac, av);
  if (config->enabled)
    fikit_node_prolog(sp, config);
  return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av) {
  const struct fikit_config *config = fikit_config(ac, av);
  if (config->enabled && spank_context() == S_CTX_REMOTE)
    fikit_step_task_init(sp, config);
  return 0;
}

int slurm_spank_task_exit(spank_t sp, int ac, char **av) {
  const struct fikit_config *config = fikit_config(ac, av);
  if (config->enabled && spank_context() == S_CTX_REMOTE)
    fikit_step_task_exit(sp, config);
  return 0;
}

int slurm_spank_job_epilog(spank_t sp, int ac, char **av) {
  const struct fikit_config *config = fikit_config(ac, av);
  if (config->enabled)
    fikit_node_epilog(sp, config);
  return 0;
}
