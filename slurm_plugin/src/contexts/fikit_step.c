#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/fikit_control.h"
#include "fikit_contexts.h"
#include "fikit_mps.h"
#include "job/fikit_args.h"
#include "job/fikit_record.h"
#include "values/fikit_preload.h"
#include "values/fikit_text.h"

/* slurm.h has these, but it is no header for SPANK plugins. */
#define BATCH_STEP 0xfffffffbU
#define EXTERN_STEP 0xfffffffcU

#define COMPONENTS 128 /* Slurm's own limit for a heterogeneous job */

#define SUMMARY_MS 500
#define LIST_BYTES 131072 /* the kernel's limit for one environment string */

/* Of this slurmstepd's step; tasks inherit it by fork. */
static struct {
  bool managed;
  bool unrecorded; /* it shares, and root could not write its record */
  uint32_t job;
  uint32_t id;
  bool batch_job;
  uint32_t tasks_left;
  char mps[FIKIT_MPS_BYTES]; /* what its tasks need to join MPS; empty: they do not */
} step;

static bool has_shards(spank_t sp) {
  char shards[32];
  return spank_getenv(sp, "SLURM_SHARDS_ON_NODE", shards, sizeof shards) == ESPANK_SUCCESS && shards[0];
}

/* A job that asked for shards without any option of ours shares its GPU all the same: its prolog has written down what it
 * could see. Slurm starts a batch job that is requeued while it starts without a prolog. The GPUs are in SLURM_JOB_GPUS then,
 * which slurmstepd sets for a batch step that has any. Nothing else that is in a step's environment counts, nor do its options:
 * slurmctld has approved none of that. */
static bool admit_shards(spank_t sp, const struct fikit_config *config, uid_t uid, struct fikit_record *record) {
  if (!fikit_node_admit(config, step.job) && step.id == BATCH_STEP) {
    *record = (struct fikit_record){.job = step.job, .uid = uid, .options = FIKIT_NO_OPTIONS};
    spank_get_item(sp, S_JOB_GID, &record->gid);
    if (spank_getenv(sp, "SLURM_JOB_GPUS", record->gpus, (int)sizeof record->gpus) == ESPANK_SUCCESS)
      fikit_node_admit_unapproved(config, record);
  }
  return fikit_record_read(config->run_dir, step.job, uid, record); /* another step of the job's may have been faster */
}

/* The user may have written it: only what can be one of Slurm's numbers counts. */
static bool number_of(spank_t sp, const char *variable, uint32_t *number) {
  char text[16];
  if (spank_getenv(sp, variable, text, (int)sizeof text) != ESPANK_SUCCESS || strspn(text, "0123456789") != strlen(text) ||
      !text[0] || strlen(text) > 10)
    return false;
  const unsigned long long value = strtoull(text, NULL, 10);
  *number = (uint32_t)value;
  return value < UINT32_MAX;
}

/* Steps of a heterogeneous job know the numbers of all its components, and not which of them they are of. srun's own
 * (not in sbatch or salloc) is told them by an older name only. */
static bool component_of(spank_t sp, uint32_t job, uint32_t *leader, uint32_t *component) {
  static const char *const names[] = {"SLURM_JOB_ID_HET_GROUP_", "SLURM_JOB_ID_PACK_GROUP_"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    uint32_t number = 0;
    for (*component = 0; *component < COMPONENTS; ++*component) {
      char variable[48];
      snprintf(variable, sizeof variable, "%s%" PRIu32, names[i], *component);
      if (!number_of(sp, variable, &number))
        break;
      if (*component == 0)
        *leader = number;
      if (number == job)
        return true;
    }
  }
  return false;
}

/* A prolog is told the GPUs of the last type only where a job has shards of several types. slurmstepd, which is root, sets
 * SLURM_JOB_GPUS for a batch step that has any GPU: a list of indices. */
static bool add_gpus(spank_t sp, struct fikit_record *record) {
  char list[sizeof record->gpus];
  bool added = false;
  if (step.id != BATCH_STEP || spank_getenv(sp, "SLURM_JOB_GPUS", list, (int)sizeof list) != ESPANK_SUCCESS ||
      strspn(list, "0123456789,") != strlen(list))
    return false;
  char *rest = NULL;
  for (char *gpu = strtok_r(list, ",", &rest); gpu; gpu = strtok_r(NULL, ",", &rest)) {
    char known[sizeof record->gpus + 2];
    char one[sizeof list + 2];
    const size_t length = strlen(record->gpus);
    snprintf(known, sizeof known, ",%s,", record->gpus);
    snprintf(one, sizeof one, ",%s,", gpu);
    if (strstr(known, one) || length + strlen(gpu) + 2 > sizeof record->gpus)
      continue;
    snprintf(record->gpus + length, sizeof record->gpus - length, "%s%s", length ? "," : "", gpu);
    added = true;
  }
  return added;
}

/* The prolog knows neither the job's name, nor its place in an array or a heterogeneous job, nor whether it has a batch step.
 * Later steps of a job with a batch step have the environment that its script gives them. */
static void complete(spank_t sp, const struct fikit_config *config, struct fikit_record *record) {
  const bool batch = record->batch || step.id == BATCH_STEP;
  const bool speaks = step.id == BATCH_STEP || !record->batch;
  uint32_t array = 0;
  uint32_t task = 0;
  char name[FIKIT_NAME_BYTES] = "";
  if (!record->name[0])
    spank_getenv(sp, "SLURM_JOB_NAME", name, (int)sizeof name);
  const bool of_array = speaks && !record->array[0] && number_of(sp, "SLURM_ARRAY_JOB_ID", &array) &&
                        number_of(sp, "SLURM_ARRAY_TASK_ID", &task);
  uint32_t leader = 0;
  uint32_t component = 0;
  const bool of_het = speaks && !record->het[0] && component_of(sp, step.job, &leader, &component);
  if (!add_gpus(sp, record) && batch == record->batch && !name[0] && !of_array && !of_het)
    return;
  record->batch = batch;
  if (of_array)
    snprintf(record->array, sizeof record->array, "%" PRIu32 "_%" PRIu32, array, task);
  if (of_het)
    snprintf(record->het, sizeof record->het, "%" PRIu32 "+%" PRIu32, leader, component);
  if (name[0])
    memcpy(record->name, name, sizeof name);
  const int error = fikit_record_write(config->run_dir, record);
  if (error)
    slurm_verbose("fikit: couldn't complete the record of job %" PRIu32 ": %s", step.job, strerror(error));
}

void fikit_step_post_opt(spank_t sp, const struct fikit_config *config) {
  struct fikit_record record;
  uid_t uid = 0;
  if (spank_get_item(sp, S_JOB_ID, &step.job) != ESPANK_SUCCESS ||
      spank_get_item(sp, S_JOB_STEPID, &step.id) != ESPANK_SUCCESS ||
      spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS || step.id == EXTERN_STEP)
    return;
  step.managed = fikit_record_read(config->run_dir, step.job, uid, &record);
  if (!step.managed && has_shards(sp)) {
    step.managed = admit_shards(sp, config, uid, &record);
    step.unrecorded = !step.managed;
  }
  if (!step.managed)
    return;
  complete(sp, config, &record);
  step.batch_job = record.batch;
  if (has_shards(sp)) /* who has the GPU alone has it without MPS */
    fikit_mps_ask(config, &record, step.mps);
  if (spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &step.tasks_left) != ESPANK_SUCCESS)
    step.tasks_left = 1;
}

static bool preload_shim(spank_t sp, const struct fikit_config *config) {
  char *list = calloc(2, LIST_BYTES);
  char *wanted = list ? list + LIST_BYTES : NULL;
  if (!list)
    return false;
  const spank_err_t got = spank_getenv(sp, "LD_PRELOAD", list, LIST_BYTES);
  if (got == ESPANK_ENV_NOEXIST)
    list[0] = '\0';
  const bool done = (got == ESPANK_SUCCESS || got == ESPANK_ENV_NOEXIST) &&
                    fikit_preload_with(list, config->shim, wanted, LIST_BYTES) &&
                    spank_setenv(sp, "LD_PRELOAD", wanted, 1) == ESPANK_SUCCESS;
  if (!done)
    slurm_spank_log("fikit: couldn't add the shim to LD_PRELOAD; this task runs unmanaged");
  free(list);
  return done;
}

static bool is_first_task(spank_t sp) {
  int task = 0;
  return spank_get_item(sp, S_TASK_ID, &task) != ESPANK_SUCCESS || task == 0;
}

/* slurmctld's Lua makes --mem of a sharing job's --mem-per-gpu, or of the site's default for each GPU. Whoever reads Slurm's
 * variables finds what was asked for; and not both, which srun would call a contradiction. */
static void leave_memory_as_asked(spank_t sp) {
  static const char *const reasons[] = {"SLURM_MEM_PER_GPU", "FIKIT_MEMORY_BY_DEFAULT"};
  char text[32];
  if (!has_shards(sp))
    return;
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
    if (spank_getenv(sp, reasons[i], text, (int)sizeof text) == ESPANK_SUCCESS)
      spank_unsetenv(sp, "SLURM_MEM_PER_NODE");
  }
  spank_unsetenv(sp, "FIKIT_MEMORY_BY_DEFAULT");
}

void fikit_step_task_init(spank_t sp, const struct fikit_config *config) {
  char socket[PATH_MAX];
  leave_memory_as_asked(sp);
  fikit_mps_leave(sp, config);
  if (step.unrecorded && is_first_task(sp))
    slurm_spank_log("fikit: couldn't write this job's record in %s: see slurmd's log; it runs unmanaged", config->run_dir);
  if (!step.managed)
    return;
  /* ld.so would complain in every process of the job. */
  if (access(config->shim, R_OK) != 0) {
    slurm_spank_log("fikit: couldn't read %s on this node: %s; this task runs unmanaged", config->shim,
                    strerror(errno));
    return;
  }
  if (!fikit_preload_can_name(config->shim)) {
    slurm_spank_log("fikit: couldn't preload %s: ld.so divides LD_PRELOAD at spaces and colons, so fikit needs a path "
                    "without; this task runs unmanaged",
                    config->shim);
    return;
  }
  snprintf(socket, sizeof socket, "%s/fikitd.sock", config->run_dir);
  spank_setenv(sp, "FIKIT_SOCKET", socket, 1);
  if (preload_shim(sp, config)) /* the shim sees to it that no more programs join than the server takes */
    fikit_mps_join(sp, step.mps);
}

/* A batch script's report comes once, at its end; a step outside a batch script reports when its last task ends. */
static bool reports(void) {
  if (step.tasks_left > 0)
    step.tasks_left--;
  return step.managed && step.tasks_left == 0 && (step.id == BATCH_STEP || !step.batch_job);
}

void fikit_step_task_exit(spank_t sp, const struct fikit_config *config) {
  char request[64];
  char answer[1024];
  char line[sizeof answer];
  (void)sp;
  if (!reports() || !config->report)
    return;
  if (step.id == BATCH_STEP)
    snprintf(request, sizeof request, "summary %" PRIu32 " batch", step.job);
  else
    snprintf(request, sizeof request, "summary %" PRIu32 " %" PRIu32, step.job, step.id);
  if (!fikit_control(config->run_dir, request, SUMMARY_MS, answer, sizeof answer))
    return;
  answer[strcspn(answer, "\n")] = '\0';
  fikit_printable(answer, line, sizeof line);
  if (line[0])
    slurm_spank_log("%s", line);
}
