#include "fikit_record.h"
#include "values/fikit_quantities.h"
#include "values/fikit_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RECORD_BYTES 4096
#define GIVEN_BYTES 192

static const char records[] = "jobs";
static const char candidates[] = "candidates";

static void path_in(const char *run_dir, const char *directory, uint32_t job, char path[PATH_MAX]) {
  snprintf(path, PATH_MAX, "%s/%s/%" PRIu32, run_dir, directory, job);
}

static void path_of(const char *run_dir, uint32_t job, char path[PATH_MAX]) { path_in(run_dir, records, job, path); }

static int directory(const char *path) { return mkdir(path, 0755) != 0 && errno != EEXIST ? errno : 0; }

int fikit_record_directory(const char *run_dir) {
  const char *const names[] = {records, candidates};
  char path[PATH_MAX];
  const mode_t old = umask(022);
  int error = directory(run_dir);
  for (size_t i = 0; !error && i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", run_dir, names[i]);
    error = directory(path);
  }
  umask(old);
  return error;
}

/* Keys that are there only when the job gave the option. */
static void format_given(const struct fikit_options *options, char text[GIVEN_BYTES]) {
  size_t length = 0;
  text[0] = '\0';
  if (options->max_slowdown_ppm >= 0)
    length = (size_t)snprintf(text, GIVEN_BYTES, "max_slowdown=%d.%06d\n", options->max_slowdown_ppm / 1000000,
                              options->max_slowdown_ppm % 1000000);
  if (options->max_delay_ns >= 0)
    length += (size_t)snprintf(text + length, GIVEN_BYTES - length, "max_delay_ns=%" PRId64 "\n", options->max_delay_ns);
  if (options->mem_host_bytes)
    length += (size_t)snprintf(text + length, GIVEN_BYTES - length, "mem_host_bytes=%" PRIu64 "\n", options->mem_host_bytes);
  if (options->automatic)
    snprintf(text + length, GIVEN_BYTES - length, "auto_highest=%d\nauto_lowest=%d\n", options->auto_highest,
             options->auto_lowest);
}

static int format(const struct fikit_record *record, char text[RECORD_BYTES]) {
  char gpus[sizeof record->gpus];
  char name[sizeof record->name];
  char given[GIVEN_BYTES];
  format_given(&record->options, given);
  fikit_printable(record->gpus, gpus, sizeof gpus);
  fikit_printable(record->name, name, sizeof name);
  return snprintf(text, RECORD_BYTES,
                  "version=1\njob=%" PRIu32 "\nuid=%u\ngid=%u\npriority=%d\nmeasure=%d\nmem_bytes=%" PRIu64
                  "\nprofile=%s\ngpus=%s\nname=%s\narray=%s\nhet=%s\nbatch=%d\nstarted_ns=%" PRId64 "\nrestart=%" PRIu32 "\nsluid=%s\n%s",
                  record->job, (unsigned)record->uid, (unsigned)record->gid, record->options.priority,
                  record->options.measure, record->options.mem_bytes, record->options.profile, gpus, name,
                  record->array, record->het, record->batch, record->started_ns, record->restart, record->sluid, given);
}

static int write_all(int fd, const char *text, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(fd, text, bytes);
    if (written < 0 && errno != EINTR)
      return errno;
    if (written > 0) {
      text += written;
      bytes -= (size_t)written;
    }
  }
  return 0;
}

static int write_in(const char *run_dir, const char *directory, const struct fikit_record *record) {
  char path[PATH_MAX];
  char temporary[PATH_MAX + 32];
  char text[RECORD_BYTES];
  path_in(run_dir, directory, record->job, path);
  snprintf(temporary, sizeof temporary, "%s/%s/.%" PRIu32 ".%d", run_dir, directory, record->job, (int)getpid());
  const int bytes = format(record, text);
  const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0)
    return errno;
  int error = write_all(fd, text, (size_t)bytes);
  if (!error && fchmod(fd, 0644) != 0) /* whatever slurmd's umask is: steps read it as the user */
    error = errno;
  if (close(fd) != 0 && !error)
    error = errno;
  if (!error && rename(temporary, path) != 0)
    error = errno;
  if (error)
    unlink(temporary);
  return error;
}

int fikit_record_write(const char *run_dir, const struct fikit_record *record) { return write_in(run_dir, records, record); }

int fikit_candidate_write(const char *run_dir, const struct fikit_record *record) {
  return write_in(run_dir, candidates, record);
}

bool fikit_candidate_admit(const char *run_dir, uint32_t job) {
  char candidate[PATH_MAX];
  char path[PATH_MAX];
  path_in(run_dir, candidates, job, candidate);
  path_of(run_dir, job, path);
  return rename(candidate, path) == 0;
}

static void apply(struct fikit_record *record, const char *key, const char *value) {
  if (strcmp(key, "uid") == 0)
    record->uid = (uid_t)strtoul(value, NULL, 10);
  else if (strcmp(key, "gid") == 0)
    record->gid = (gid_t)strtoul(value, NULL, 10);
  else if (strcmp(key, "priority") == 0)
    record->options.priority = (int)strtol(value, NULL, 10);
  else if (strcmp(key, "measure") == 0)
    record->options.measure = strcmp(value, "1") == 0;
  else if (strcmp(key, "mem_bytes") == 0)
    record->options.mem_bytes = strtoull(value, NULL, 10);
  else if (strcmp(key, "mem_host_bytes") == 0)
    record->options.mem_host_bytes = strtoull(value, NULL, 10);
  else if (strcmp(key, "profile") == 0)
    snprintf(record->options.profile, sizeof record->options.profile, "%s", value);
  else if (strcmp(key, "max_slowdown") == 0)
    fikit_parse_share(value, &record->options.max_slowdown_ppm);
  else if (strcmp(key, "max_delay_ns") == 0)
    record->options.max_delay_ns = strtoll(value, NULL, 10);
  else if (strcmp(key, "auto_highest") == 0)
    record->options.auto_highest = (int)strtol(value, NULL, 10);
  else if (strcmp(key, "auto_lowest") == 0) {
    record->options.auto_lowest = (int)strtol(value, NULL, 10);
    record->options.automatic = true;
  } else if (strcmp(key, "gpus") == 0)
    snprintf(record->gpus, sizeof record->gpus, "%s", value);
  else if (strcmp(key, "name") == 0)
    snprintf(record->name, sizeof record->name, "%s", value);
  else if (strcmp(key, "array") == 0)
    snprintf(record->array, sizeof record->array, "%s", value);
  else if (strcmp(key, "het") == 0)
    snprintf(record->het, sizeof record->het, "%s", value);
  else if (strcmp(key, "batch") == 0)
    record->batch = strcmp(value, "1") == 0;
  else if (strcmp(key, "started_ns") == 0)
    record->started_ns = strtoll(value, NULL, 10);
  else if (strcmp(key, "sluid") == 0)
    snprintf(record->sluid, sizeof record->sluid, "%s", value);
  else if (strcmp(key, "restart") == 0)
    record->restart = (uint32_t)strtoul(value, NULL, 10);
}

bool fikit_record_read(const char *run_dir, uint32_t job, uid_t uid, struct fikit_record *record) {
  char path[PATH_MAX];
  char text[RECORD_BYTES];
  path_of(run_dir, job, path);
  const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return false;
  const ssize_t bytes = read(fd, text, sizeof text - 1);
  close(fd);
  if (bytes <= 0)
    return false;
  text[bytes] = '\0';
  *record = (struct fikit_record){.job = job, .uid = (uid_t)-1, .options = FIKIT_NO_OPTIONS};
  char *rest = NULL;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char *value = strchr(line, '=');
    if (value) {
      *value++ = '\0';
      apply(record, line, value);
    }
  }
  return record->uid == uid;
}

bool fikit_record_exists(const char *run_dir, uint32_t job) {
  char path[PATH_MAX];
  path_of(run_dir, job, path);
  return access(path, F_OK) == 0;
}

void fikit_record_remove(const char *run_dir, uint32_t job) {
  const char *const names[] = {records, candidates};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char path[PATH_MAX];
    path_in(run_dir, names[i], job, path);
    if (unlink(path) != 0 && errno != ENOENT)
      slurm_error("fikit: couldn't remove job record %s: %m", path);
  }
}
