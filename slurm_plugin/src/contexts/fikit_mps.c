#include "fikit_mps.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/fikit_control.h"

#define ASK_MS 2000 /* longer than fikitd waits for NVML to tell which GPU the job has, the first time */
#define PIPES "CUDA_MPS_PIPE_DIRECTORY"
#define DEVICES "CUDA_VISIBLE_DEVICES"

/* Whatever fikitd may say, these are the variables that a task gets. The first three mean nothing without MPS; Slurm sets the last
 * for every step that has a GPU. */
static const char *const variables[] = {PIPES, "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", DEVICES};
#define OF_MPS_ALONE 3
#define VARIABLES (sizeof variables / sizeof *variables)

void fikit_mps_ask(const struct fikit_config *config, const struct fikit_record *record, char said[FIKIT_MPS_BYTES]) {
  char path[PATH_MAX];
  char request[32];
  said[0] = '\0';
  snprintf(path, sizeof path, "%s/mps", config->run_dir);
  if (record->options.measure || access(path, F_OK) != 0)
    return;
  snprintf(request, sizeof request, "mps %" PRIu32, record->job);
  if (!fikit_control(config->run_dir, request, ASK_MS, said, FIKIT_MPS_BYTES)) {
    said[0] = '\0';
    slurm_verbose("fikit: fikitd did not say whether job %" PRIu32 " joins MPS: it runs in time slices", record->job);
  }
}

/* Whether the pipe directory is one that this node's fikitd, or another node's with the same run_dir, made. */
static bool is_ours(const struct fikit_config *config, const char *pipes) {
  const size_t length = strlen(config->run_dir);
  return strncmp(pipes, config->run_dir, length) == 0 && strncmp(pipes + length, "/mps/", strlen("/mps/")) == 0;
}

void fikit_mps_leave(spank_t sp, const struct fikit_config *config) {
  char pipes[PATH_MAX];
  if (spank_getenv(sp, PIPES, pipes, (int)sizeof pipes) != ESPANK_SUCCESS || !is_ours(config, pipes))
    return;
  for (size_t i = 0; i < OF_MPS_ALONE; i++)
    spank_unsetenv(sp, variables[i]);
}

void fikit_mps_leave_outer_job(const struct fikit_config *config) {
  const char *pipes = getenv(PIPES);
  if (!pipes || !is_ours(config, pipes))
    return;
  for (size_t i = 0; i < OF_MPS_ALONE; i++)
    unsetenv(variables[i]);
}

/* The value in the line "NAME=VALUE" of `name`; false when there is none. */
static bool find(const char *said, const char *name, char value[FIKIT_MPS_BYTES]) {
  const size_t length = strlen(name);
  for (const char *line = said; *line; line += strcspn(line, "\n"), line += *line == '\n') {
    if (strncmp(line, name, length) == 0 && line[length] == '=') {
      snprintf(value, FIKIT_MPS_BYTES, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
      return true;
    }
  }
  return false;
}

/* With one GPU, "0" means the same in MPS and outside, and every program understands it; there are some that take a UUID for a fault. */
static bool keeps_devices(spank_t sp) {
  char devices[8];
  return spank_getenv(sp, DEVICES, devices, (int)sizeof devices) == ESPANK_SUCCESS && strcmp(devices, "0") == 0;
}

void fikit_mps_join(spank_t sp, const char *said) {
  char value[FIKIT_MPS_BYTES];
  if (!find(said, PIPES, value) || spank_getenv(sp, PIPES, value, (int)sizeof value) != ESPANK_ENV_NOEXIST)
    return;
  for (size_t i = 0; i < VARIABLES; i++) {
    const bool keeps = strcmp(variables[i], DEVICES) == 0 && keeps_devices(sp);
    if (!keeps && find(said, variables[i], value))
      spank_setenv(sp, variables[i], value, 1);
  }
}
