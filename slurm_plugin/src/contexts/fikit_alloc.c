#include <stdlib.h>
#include <string.h>

#include "fikit_contexts.h"
#include "fikit_lua.h"
#include "fikit_mps.h"
#include "job/fikit_args.h"
#include "values/fikit_preload.h"

/* Sent with a job that says nothing of its GPU memory; read by fikit_submit.lua. */
#define USUAL_MEMORY "FIKIT_USUAL_MEM"
/* Sent with an srun's job that asks for shards instead of its GPU; read by fikit_asked.lua. */
#define ASKED "FIKIT_ASKED"

/* sbatch and srun typed inside a managed job export their environment to the new job, which may be exclusive or run on
 * a node without the shim: what task_init of the outer job added stays behind. So does the outer job's shard count, by
 * which the new job would look like a sharing one; slurmstepd sets the right one. */
static void strip_outer_job(const struct fikit_config *config) {
  const char *list = getenv("LD_PRELOAD");
  const char *file = strrchr(config->shim, '/');
  unsetenv("FIKIT_SOCKET");
  unsetenv("SLURM_SHARDS_ON_NODE");
  unsetenv("SLURM_SPANK_" USUAL_MEMORY);
  unsetenv("SLURM_SPANK_" ASKED);
  fikit_mps_leave_outer_job(config);
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

/* A sharing job that asked for --mem-per-gpu has --mem for Slurm, and salloc's shell has both variables. Slurm itself never
 * gives both, and srun would call them a contradiction: what was asked for stays. */
void fikit_alloc_memory_as_asked(void) {
  if (getenv("SLURM_MEM_PER_GPU"))
    unsetenv("SLURM_MEM_PER_NODE");
}

/* With this job, or this component of one, and no other. */
static void send(spank_t sp, const char *name, const char *text) {
  spank_err_t error = ESPANK_SUCCESS;
  if (text)
    error = spank_job_control_setenv(sp, name, text, 1);
  else
    spank_job_control_unsetenv(sp, name); /* there or not */
  if (error != ESPANK_SUCCESS)
    slurm_verbose("fikit: couldn't send %s with the job", name);
}

void fikit_alloc_post_opt(spank_t sp, const struct fikit_config *config) {
  fikit_args_from_environment(sp);
  send(sp, USUAL_MEMORY, fikit_lua_usual_memory());
  send(sp, ASKED, fikit_lua_asked());
  strip_outer_job(config);
}
