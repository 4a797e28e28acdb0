/* What each Slurm context does; fikit_dispatch.c calls these. Every one of them fails open: a fault of fikit's never
 * makes a job, a node or a command fail, except a bad option, which ends the command before anything is submitted. */
#ifndef FIKIT_CONTEXTS_H
#define FIKIT_CONTEXTS_H

#include <slurm/spank.h>

#include "fikit_config.h"
#include "fikit_record.h"

/* srun, sbatch, salloc: as the user, before submission (fikit_alloc.c). */
void fikit_alloc_post_opt(spank_t sp, const struct fikit_config *config);

/* The node's prolog and epilog: as root (fikit_node.c). */
void fikit_node_prolog(spank_t sp, const struct fikit_config *config);
void fikit_node_epilog(spank_t sp, const struct fikit_config *config);

/* As root: makes the job a managed one, i.e. writes its record and makes sure that fikitd runs. The record's
 * started_ns is filled in, and the site's default priority where the job has none. */
void fikit_node_admit(const struct fikit_config *config, struct fikit_record *record);

/* slurmstepd: post_opt and task_exit as root, task_init as the user in the task's process (fikit_step.c). */
void fikit_step_post_opt(spank_t sp, const struct fikit_config *config);
void fikit_step_task_init(spank_t sp, const struct fikit_config *config);
void fikit_step_task_exit(spank_t sp, const struct fikit_config *config);

#endif
