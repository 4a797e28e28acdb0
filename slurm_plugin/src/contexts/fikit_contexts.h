/* What each Slurm context does; fikit_dispatch.c calls these. Every one of them fails open: a fault of fikit's never
 * makes a job, a node or a command fail, except a bad option, which ends the command before anything is submitted. */
#ifndef FIKIT_CONTEXTS_H
#define FIKIT_CONTEXTS_H

#include <slurm/spank.h>

#include "job/fikit_record.h"
#include "site/fikit_config.h"

/* srun: before it reads its variables (fikit_alloc.c). */
void fikit_alloc_memory_as_asked(void);

/* srun, sbatch, salloc: as the user, before submission (fikit_alloc.c). */
void fikit_alloc_post_opt(spank_t sp, const struct fikit_config *config);

/* The node's prolog and epilog: as root (fikit_node.c). */
void fikit_node_prolog(spank_t sp, const struct fikit_config *config);
void fikit_node_epilog(spank_t sp, const struct fikit_config *config);

/* As root, for a step that has shards: makes its job a managed one, by what the prolog wrote down of a job without options.
 * The step adds nothing to that. False when no prolog did. */
bool fikit_node_admit(const struct fikit_config *config, uint32_t job);

/* As root, for a batch step that has shards and before which no prolog ran: nothing that slurmctld approved has come here, so
 * the job gets the lowest priority. */
void fikit_node_admit_unapproved(const struct fikit_config *config, struct fikit_record *record);

/* slurmstepd: post_opt and task_exit as root, task_init as the user in the task's process (fikit_step.c). */
void fikit_step_post_opt(spank_t sp, const struct fikit_config *config);
void fikit_step_task_init(spank_t sp, const struct fikit_config *config);
void fikit_step_task_exit(spank_t sp, const struct fikit_config *config);

#endif
