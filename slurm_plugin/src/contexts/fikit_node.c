#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/fikit_control.h"
#include "daemon/fikit_daemon.h"
#include "fikit_contexts.h"
#include "job/fikit_args.h"
#include "job/fikit_record.h"
#include "site/fikit_site.h"
#include "values/fikit_priority.h"

#define END_MS 500

/* slurmd starts prologs with descriptor 0 closed: a socket or file of ours would become standard input. */
static void fill_standard_descriptors(void) {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO)
    close(fd);
}

/* Slurm says so to prologs and epilogs alike, from the job's credential. */
static bool restart_of(uint32_t *restart) {
  const char *text = getenv("SLURM_JOB_RESTART_COUNT");
  if (!text || !*text)
    return false;
  *restart = (uint32_t)strtoul(text, NULL, 10);
  return true;
}

/* Slurm 26.05 names the cgroups of a run by it, and says it since 25.11. */
static void sluid_of(char sluid[FIKIT_SLUID_BYTES]) {
  const char *text = getenv("SLURM_JOB_SLUID");
  if (text && strlen(text) == FIKIT_SLUID_BYTES - 1 && strspn(text, "s0123456789ABCDEFGHJKMNPQRSTVWXYZ") == strlen(text))
    snprintf(sluid, FIKIT_SLUID_BYTES, "%s", text);
}

/* Whether the epilog is one of an earlier run than the record: the node failed, and the job runs here again already. A run
 * that scontrol requeued is not known by this, because Slurm counts it before its epilog; it waits for that epilog. */
static bool ends_earlier_run(const char *run_dir, uint32_t job, uid_t uid) {
  struct fikit_record record;
  uint32_t ended = 0;
  return restart_of(&ended) && fikit_record_read(run_dir, job, uid, &record) && ended < record.restart;
}

static void start_record(struct fikit_record *record) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  record->started_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

typedef int writer(const char *run_dir, const struct fikit_record *record);

static bool write_down(const struct fikit_config *config, const struct fikit_record *record, writer *write) {
  int error = fikit_record_directory(config->run_dir);
  if (!error)
    error = write(config->run_dir, record);
  if (error)
    slurm_error("fikit: couldn't write the record of job %" PRIu32 " in %s: %s; it runs unmanaged", record->job,
                config->run_dir, strerror(error));
  return !error;
}

bool fikit_node_admit(const struct fikit_config *config, uint32_t job) {
  if (!fikit_candidate_admit(config->run_dir, job))
    return false;
  fikit_daemon_ensure(config);
  return true;
}

void fikit_node_admit_unapproved(const struct fikit_config *config, struct fikit_record *record) {
  slurm_error("fikit: no prolog ran for job %" PRIu32 ", which has shards: it has the lowest priority", record->job);
  record->options.priority = FIKIT_PRIORITY_LOWEST;
  start_record(record);
  if (write_down(config, record, fikit_record_write))
    fikit_daemon_ensure(config);
}

/* Of a job that names none. What is only measured is alone on its GPU, and slurmctld approved no priority of it. */
static int unnamed_priority(const struct fikit_config *config, const struct fikit_options *options) {
  return options->measure ? FIKIT_PRIORITY_LOWEST : fikit_site_priority(config);
}

/* slurmctld has approved the upper end of a range, as it approves a priority; the job has that until fikitd chooses. */
static void settle_priority(const struct fikit_config *config, struct fikit_options *options) {
  if (options->automatic && options->auto_highest < 0)
    fikit_auto_range(fikit_site_priority(config), &options->auto_highest, &options->auto_lowest);
  if (options->priority < 0)
    options->priority = options->automatic ? options->auto_highest : unnamed_priority(config, options);
}

/* For administrators who look for what makes jobs start late (SlurmdDebug=debug), and for `python -m bench load`. */
static void tell_time(const char *hook, uint32_t job, int64_t begin_us) {
  slurm_debug("fikit: the %s of job %" PRIu32 " took %" PRId64 " us", hook, job, fikit_now_us() - begin_us);
}

void fikit_node_prolog(spank_t sp, const struct fikit_config *config) {
  const int64_t begin_us = fikit_now_us();
  struct fikit_record record = {.options = fikit_args_of_job(sp)};
  if (spank_get_item(sp, S_JOB_ID, &record.job) != ESPANK_SUCCESS ||
      spank_get_item(sp, S_JOB_UID, &record.uid) != ESPANK_SUCCESS ||
      spank_get_item(sp, S_JOB_GID, &record.gid) != ESPANK_SUCCESS) {
    slurm_error("fikit: couldn't learn the prolog's job from Slurm; it runs unmanaged");
    return;
  }
  fill_standard_descriptors();
  /* FIKIT_PRIORITY in somebody's environment is sent with jobs that have no GPU, too. */
  const char *gpus = getenv("SLURM_JOB_GPUS");
  const bool managed = gpus && *gpus && fikit_any_option(&record.options);
  if (!managed) /* left by an earlier job of the same number whose epilog never ran */
    fikit_record_remove(config->run_dir, record.job);
  if (!gpus || !*gpus)
    return;
  snprintf(record.gpus, sizeof record.gpus, "%s", gpus);
  restart_of(&record.restart);
  sluid_of(record.sluid);
  start_record(&record);
  settle_priority(config, &record.options);
  if (write_down(config, &record, managed ? fikit_record_write : fikit_candidate_write) && managed)
    fikit_daemon_ensure(config);
  tell_time("prolog", record.job, begin_us);
}

void fikit_node_epilog(spank_t sp, const struct fikit_config *config) {
  const int64_t begin_us = fikit_now_us();
  uint32_t job = 0;
  uid_t uid = 0;
  char request[32];
  if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS)
    return;
  if (!fikit_record_exists(config->run_dir, job)) {
    fikit_record_remove(config->run_dir, job); /* its candidate, if it had a GPU */
    return;
  }
  if (spank_get_item(sp, S_JOB_UID, &uid) == ESPANK_SUCCESS && ends_earlier_run(config->run_dir, job, uid)) {
    slurm_verbose("fikit: this epilog of job %" PRIu32 " is of an earlier run: the job's record stays", job);
    return;
  }
  fill_standard_descriptors();
  snprintf(request, sizeof request, "end %" PRIu32, job);
  if (!fikit_control(config->run_dir, request, END_MS, NULL, 0))
    slurm_verbose("fikit: couldn't tell fikitd that job %" PRIu32 " is over: it finds out by itself", job);
  fikit_record_remove(config->run_dir, job);
  tell_time("epilog", job, begin_us);
}
