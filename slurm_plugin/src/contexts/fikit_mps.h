/* [gpu] mps of fikit.toml, as far as Slurm's hooks have to do with it: fikitd says what a job's programs need to become clients of
 * the MPS server that it runs, and a task gets it. fikitd makes RUN_DIR/mps where MPS is on: where it is off, nobody is asked. */
#ifndef FIKIT_MPS_H
#define FIKIT_MPS_H

#include <slurm/spank.h>

#include "job/fikit_record.h"
#include "site/fikit_config.h"

#define FIKIT_MPS_BYTES 1024

/* As root: what fikitd says that the programs of the job with this record need to join, "NAME=VALUE\n" each; "" where they do not
 * join, or nobody says so in time. Asking begins the server, for which nobody waits here: each program waits for it, with a bound,
 * when it begins to use the GPU. */
void fikit_mps_ask(const struct fikit_config *config, const struct fikit_record *record, char said[FIKIT_MPS_BYTES]);

/* In a task: takes out of its environment what it inherited from another job that had joined. */
void fikit_mps_leave(spank_t sp, const struct fikit_config *config);

/* In a task: puts into its environment what fikitd said, unless its user has an MPS of his own. */
void fikit_mps_join(spank_t sp, const char *said);

/* In srun, sbatch and salloc: takes out of the environment what they inherited from a job that had joined. */
void fikit_mps_leave_outer_job(const struct fikit_config *config);

#endif
