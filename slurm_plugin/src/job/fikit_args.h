/* The --fikit-* options: one table, their environment equivalents, and what a job asked for. */
#ifndef FIKIT_ARGS_H
#define FIKIT_ARGS_H

#include <slurm/spank.h>
#include <stdbool.h>
#include <stdint.h>

#define FIKIT_PROFILE_BYTES 65

struct fikit_options {
  int priority;                       /* 0..9; -1 = not given, or automatic */
  bool automatic;                     /* fikitd chooses the priority, from auto_highest to auto_lowest; -1: the site's range */
  int auto_highest;
  int auto_lowest;
  bool measure;
  uint64_t mem_bytes;                 /* 0 = not given */
  uint64_t mem_host_bytes;            /* 0 = not given */
  char profile[FIKIT_PROFILE_BYTES];  /* "" = not given */
  int32_t max_slowdown_ppm;           /* because of lower jobs, in millionths; -1 = not given */
  int64_t max_delay_ns;               /* -1 = not given */
};

#define FIKIT_NO_OPTIONS ((struct fikit_options){.priority = -1, .max_slowdown_ppm = -1, .max_delay_ns = -1})

/* Registers the options; to be called from slurm_spank_init of every context. */
void fikit_args_register(spank_t sp);

bool fikit_any_option(const struct fikit_options *options);

/* For prolog and epilog, where callbacks never run: the options that the job was submitted with. */
struct fikit_options fikit_args_of_job(spank_t sp);

/* In sbatch and salloc typed inside a job, before Slurm reads them: the new job does not inherit the outer job's options,
 * which may not even have a GPU to be about. Steps, srun's inside a job, do. */
void fikit_args_forget_outer_job(void);

/* In srun, sbatch and salloc: FIKIT_PRIORITY and the like count as their option where that was not given, and travel
 * the option's own way to slurmctld and to the node. A bad value ends the command with one sentence. */
void fikit_args_from_environment(spank_t sp);

#endif
