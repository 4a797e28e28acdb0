/* RUN_DIR/jobs/<jobid>: what root knows about a managed job. fikitd and the job's steps read it; docs/design/contracts.md has the
 * format. Everything in it that decides is from the prolog.
 * RUN_DIR/candidates/<jobid>: the same of a job that has a GPU and no option of ours. No prolog can tell shards from GPUs: the
 * first step that has shards moves the file to the records, as it is. */
#ifndef FIKIT_RECORD_H
#define FIKIT_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fikit_args.h"

#define FIKIT_NAME_BYTES 129
#define FIKIT_PLACE_BYTES 24
#define FIKIT_SLUID_BYTES 15

struct fikit_record {
  uint32_t job;
  uid_t uid;
  gid_t gid;
  struct fikit_options options;  /* options.priority is always 0..9 */
  char gpus[256];                /* as in SLURM_JOB_GPUS */
  char name[FIKIT_NAME_BYTES];
  char array[FIKIT_PLACE_BYTES]; /* 12_3: task 3 of array 12; empty for other jobs */
  char het[FIKIT_PLACE_BYTES];   /* 12+1: component 1 of heterogeneous job 12; empty for other jobs */
  bool batch;                    /* the job has a batch step, which reports for its inner steps */
  int64_t started_ns;            /* CLOCK_REALTIME */
  char sluid[FIKIT_SLUID_BYTES]; /* by which Slurm names the run's cgroup, since 26.05; empty: nobody said */
  uint32_t restart;              /* how many times Slurm has started the job again; 0 where nobody said */
};

/* Makes RUN_DIR and its directories if needed; 0 or an errno value. */
int fikit_record_directory(const char *run_dir);

/* Writes the record by temporary file and rename, so that nobody ever reads half of it; 0 or an errno value. */
int fikit_record_write(const char *run_dir, const struct fikit_record *record);

/* The same for a candidate. */
int fikit_candidate_write(const char *run_dir, const struct fikit_record *record);

/* Makes the candidate the job's record; false when there is none. */
bool fikit_candidate_admit(const char *run_dir, uint32_t job);

/* False when the job has no record that belongs to `uid`. */
bool fikit_record_read(const char *run_dir, uint32_t job, uid_t uid, struct fikit_record *record);

bool fikit_record_exists(const char *run_dir, uint32_t job);

/* Removes the job's record and its candidate, as far as they are there. */
void fikit_record_remove(const char *run_dir, uint32_t job);

#endif
