#define _GNU_SOURCE
#include "channel_group.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

/* --- the interface of RM */

enum { RM_FREE = 0x29, RM_CONTROL = 0x2a, RM_ALLOC = 0x2b, RM_LONG_CALL = 211 };

struct rm_free {
  uint32_t client, parent, object, status;
};

struct rm_alloc { /* the shorter form ends before `rights` and has size and status in its place */
  uint32_t client, parent, object, class;
  uint64_t parameters, rights;
  uint32_t size, flags, status, unused;
};

struct rm_control {
  uint32_t client, object, command, flags;
  uint64_t parameters;
  uint32_t size, status;
};

struct rm_long_call { /* a call whose structure is elsewhere */
  uint32_t number, size;
  uint64_t at;
};

struct group_parameters { /* the begin of a channel group's parameters */
  uint32_t object_error, object_ecc_error, address_space, engine;
};

struct preempt {
  uint8_t wait, own_timeout;
  uint32_t timeout_us;
};

enum { SHORT_ALLOC = 32, CHANNEL_GROUP = 0xa06c, GRAPHICS = 1 };
_Static_assert(sizeof(struct rm_free) == 16, "NVOS00_PARAMETERS has 16 bytes");
_Static_assert(sizeof(struct rm_alloc) == 48, "NVOS64_PARAMETERS has 48 bytes");
_Static_assert(sizeof(struct rm_control) == 32, "NVOS54_PARAMETERS has 32 bytes");
_Static_assert(sizeof(struct rm_long_call) == 16, "nv_ioctl_xfer_t has 16 bytes");
_Static_assert(sizeof(struct preempt) == 8, "NVA06C_CTRL_PREEMPT_PARAMS has 8 bytes");

#define SCHEDULE UINT32_C(0xa06c0101)
#define SET_TIMESLICE UINT32_C(0xa06c0103)
#define GET_TIMESLICE UINT32_C(0xa06c0104)
#define PREEMPT UINT32_C(0xa06c0105)

/* --- what libcuda did */

enum { MOST_GROUPS = 16, MOST_SEEN = 64, MOST_CONTROLS = 40, PREEMPT_TIMEOUT_US = 100000 };

static struct group {
  int fd;
  uint32_t client, object, engine;
  bool gone;
} groups[MOST_GROUPS];

static struct seen {
  uint32_t command, size, status;
  uint64_t value;
} seen[MOST_SEEN];

static int group_count, seen_count, schedule_size = 3;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int real_ioctl(int fd, unsigned long request, void *argument) {
  static int (*real)(int, unsigned long, ...);
  if (!real)
    real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
  return real(fd, request, argument);
}

static void see_alloc(int fd, const struct rm_alloc *call, size_t size) {
  uint32_t status = size == SHORT_ALLOC ? (uint32_t)(call->rights >> 32) : call->status;
  if (call->class != CHANNEL_GROUP || status != 0 || group_count == MOST_GROUPS)
    return;
  struct group *group = &groups[group_count++];
  *group = (struct group){.fd = fd, .client = call->client, .object = call->object};
  if (call->parameters)
    group->engine = ((const struct group_parameters *)(uintptr_t)call->parameters)->engine;
}

static void see_free(const struct rm_free *call) {
  for (int i = 0; i < group_count; i++)
    if (call->status == 0 && groups[i].client == call->client &&
        (groups[i].object == call->object || call->client == call->object))
      groups[i].gone = true;
}

static void see_control(const struct rm_control *call) {
  if (call->command >> 16 != CHANNEL_GROUP || seen_count == MOST_SEEN)
    return;
  struct seen *one = &seen[seen_count++];
  *one = (struct seen){.command = call->command, .size = call->size, .status = call->status};
  if (call->parameters && call->size && call->size <= sizeof one->value)
    memcpy(&one->value, (const void *)(uintptr_t)call->parameters, call->size);
  if (call->command == SCHEDULE && call->size && call->status == 0)
    schedule_size = (int)call->size; /* drivers differ in it: 2 or 3 */
}

static void see(int fd, unsigned number, size_t size, const void *call) {
  pthread_mutex_lock(&lock);
  if (number == RM_ALLOC && (size == SHORT_ALLOC || size == sizeof(struct rm_alloc)))
    see_alloc(fd, call, size);
  else if (number == RM_FREE && size == sizeof(struct rm_free))
    see_free(call);
  else if (number == RM_CONTROL && size == sizeof(struct rm_control))
    see_control(call);
  pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void *argument = va_arg(list, void *);
  va_end(list);
  int result = real_ioctl(fd, request, argument), error = errno;
  if (result == 0 && _IOC_TYPE(request) == 'F' && argument) {
    const struct rm_long_call *call = argument;
    if (_IOC_NR(request) == RM_LONG_CALL && _IOC_SIZE(request) == sizeof *call)
      see(fd, call->number, call->size, (const void *)(uintptr_t)call->at);
    else
      see(fd, _IOC_NR(request), _IOC_SIZE(request), argument);
  }
  errno = error;
  return result;
}

/* --- controls of our own */

static struct control {
  const char *verb;
  int64_t at_ms, took_ns;
  uint64_t value, got;
  int group, error;
  uint32_t status;
} planned[MOST_CONTROLS], done[MOST_CONTROLS * 2];

static int planned_count, done_count;
static pthread_t thread;
static bool has_thread;

static int64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool number(const char **at, int64_t *value) {
  char *end;
  *value = strtoll(*at, &end, 10);
  bool found = end != *at && *value >= 0;
  *at = end;
  return found;
}

static bool plan_control(const char **words) {
  static const char *const verbs[] = {"timeslice", "schedule", "preempt"};
  struct control *one = &planned[planned_count];
  int64_t value = 0;
  bool known = number(words, &one->at_ms) && *(*words)++ == ':';
  for (size_t i = 0; known && i < sizeof verbs / sizeof *verbs; i++) {
    size_t length = strlen(verbs[i]);
    if (strncmp(*words, verbs[i], length) != 0)
      continue;
    one->verb = verbs[i];
    *words += length;
    known = **words != ':' || (++*words, number(words, &value));
  }
  one->value = (uint64_t)value;
  return known && one->verb;
}

bool plan_controls(const char *words) {
  for (; *words && planned_count < MOST_CONTROLS; planned_count++) {
    if (!plan_control(&words))
      return false;
    words += strspn(words, " ");
  }
  return !*words;
}

static void issue(const struct group *group, uint32_t command, void *parameters, size_t size, struct control *one) {
  struct rm_control call = {.client = group->client,
                            .object = group->object,
                            .command = command,
                            .parameters = (uint64_t)(uintptr_t)parameters,
                            .size = (uint32_t)size};
  int64_t before_ns = clock_ns();
  one->error = real_ioctl(group->fd, _IOWR('F', RM_CONTROL, struct rm_control), &call) == 0 ? 0 : errno;
  one->took_ns = clock_ns() - before_ns;
  one->status = call.status;
}

static void control(const struct group *group, struct control *one) {
  if (strcmp(one->verb, "timeslice") == 0) {
    uint64_t slice_us = one->value;
    struct control asked = {0};
    issue(group, SET_TIMESLICE, &slice_us, sizeof slice_us, one);
    issue(group, GET_TIMESLICE, &slice_us, sizeof slice_us, &asked);
    one->got = asked.error == 0 && asked.status == 0 ? slice_us : 0;
  } else if (strcmp(one->verb, "preempt") == 0) {
    struct preempt how = {.wait = 1, .own_timeout = 1, .timeout_us = PREEMPT_TIMEOUT_US};
    issue(group, PREEMPT, &how, sizeof how, one);
  } else {
    uint8_t how[4] = {(uint8_t)one->value};
    issue(group, SCHEDULE, how, (size_t)schedule_size, one);
    if (one->error == 0 && one->status != 0) { /* perhaps the driver has the other size */
      struct control again = *one;
      issue(group, SCHEDULE, how, (size_t)(5 - schedule_size), &again);
      if (again.error == 0 && again.status == 0) {
        schedule_size = 5 - schedule_size;
        *one = again;
      }
    }
  }
}

/* The compute engine's groups; all where none says that it is one. */
static void control_groups(const struct control *wanted) {
  bool has_graphics = false;
  for (int i = 0; i < group_count; i++)
    has_graphics |= !groups[i].gone && groups[i].engine == GRAPHICS;
  for (int i = 0; i < group_count && done_count < MOST_CONTROLS * 2; i++) {
    if (groups[i].gone || (has_graphics && groups[i].engine != GRAPHICS))
      continue;
    struct control *one = &done[done_count];
    *one = *wanted;
    one->group = i;
    control(&groups[i], one);
    done_count++;
  }
}

static void *control_in_time(void *begin) {
  int64_t begin_ns = *(int64_t *)begin;
  for (int i = 0; i < planned_count; i++) {
    int64_t left_ns = begin_ns + planned[i].at_ms * 1000000 - clock_ns();
    struct timespec pause = {left_ns / 1000000000, left_ns % 1000000000};
    if (planned[i].at_ms == 0)
      continue;
    if (left_ns > 0)
      nanosleep(&pause, NULL);
    control_groups(&planned[i]);
  }
  return NULL;
}

void begin_controls(void) {
  static int64_t begin_ns;
  bool later = false;
  for (int i = 0; i < planned_count; i++) {
    later |= planned[i].at_ms != 0;
    if (planned[i].at_ms == 0)
      control_groups(&planned[i]);
  }
  begin_ns = clock_ns();
  has_thread = later && pthread_create(&thread, NULL, control_in_time, &begin_ns) == 0;
}

void print_controls(void) {
  if (has_thread)
    pthread_join(thread, NULL);
  printf(", \"groups\": [");
  for (int i = 0; i < group_count; i++)
    printf("%s{\"engine\": %" PRIu32 ", \"gone\": %s}", i ? ", " : "", groups[i].engine,
           groups[i].gone ? "true" : "false");
  printf("], \"by_libcuda\": [");
  for (int i = 0; i < seen_count; i++)
    printf("%s{\"command\": \"0x%08" PRIx32 "\", \"bytes\": %" PRIu32 ", \"value\": %" PRIu64
           ", \"status\": \"0x%" PRIx32 "\"}",
           i ? ", " : "", seen[i].command, seen[i].size, seen[i].value, seen[i].status);
  printf("], \"controls\": [");
  for (int i = 0; i < done_count; i++) {
    const struct control *one = &done[i];
    printf("%s{\"verb\": \"%s\", \"value\": %" PRIu64 ", \"at_ms\": %" PRId64 ", \"group\": %d, \"errno\": %d, "
           "\"status\": \"0x%" PRIx32 "\", \"took_ns\": %" PRId64 ", \"read_back\": %" PRIu64 "}",
           i ? ", " : "", one->verb, one->value, one->at_ms, one->group, one->error, one->status, one->took_ns,
           one->got);
  }
  printf("]");
}
