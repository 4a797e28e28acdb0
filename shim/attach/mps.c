/*
 * Before cuInit a program whose job was told to join MPS asks fikitd whether it may. An MPS server takes a limited number of clients, and
 * none after a fatal fault or its own end; the driver's cuInit would fail then. A program that may not join, or gets no answer, sets a pipe
 * directory without a server for the time of cuInit: then the driver works as without MPS (nvidia-cuda-mps-control(1)).
 *
 * The driver may refuse a program that fikitd let in: a private /dev/shm hides the server, or the server restarts. cuInit then has one
 * second try outside MPS. A context comes too late for a second try: the driver looks for MPS once, when cuInit begins.
 */
#include "attach/mps.h"
#include "attach/connect.h"
#include "base/device.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/symbols.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIPES "CUDA_MPS_PIPE_DIRECTORY"

/* CUresult of a program that cannot be a client: CUDA_ERROR_MPS_CONNECTION_FAILED to CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED. */
enum { FIRST_REFUSAL = 805, LAST_REFUSAL = 809 };

/* Around cuInit until one succeeds: no thread begins inside MPS while another begins outside. The holder waits for fikitd and in the driver;
 * a thread that has waited longer than for both goes on to the driver. */
static _Atomic bool beginning;
#define PATIENCE_NS (20 * INT64_C(1000000000))
static enum { UNASKED, INSIDE, OUTSIDE } answer; /* under `beginning` */
static atomic_bool begun; /* cuInit has succeeded */
static int place = -1; /* the connection that keeps this process's place at the server */
static struct fikit_file_id place_file;

/* Was the program told to join a server of fikitd's? Its pipe directory is below the directory of fikitd's socket then. `nowhere`: the pipe
 * directory of a program outside, which was told already. */
static bool told_to_join(const char *socket_path, char nowhere[FIKIT_PATH_BYTES]) {
  const char *pipes = getenv(PIPES);
  const char *slash = socket_path ? strrchr(socket_path, '/') : NULL;
  if (!pipes || !slash)
    return false;
  int length = snprintf(nowhere, FIKIT_PATH_BYTES, "%.*s/" FIKIT_MPS_DIRECTORY "/", (int)(slash - socket_path), socket_path);
  if (length <= 0 || length + sizeof "outside" > FIKIT_PATH_BYTES || strncmp(pipes, nowhere, (size_t)length) != 0)
    return false;
  memcpy(nowhere + length, "outside", sizeof "outside"); /* fikitd makes no such directory */
  return strcmp(pipes, nowhere) != 0;
}

static bool may_join(const char *socket_path) {
  char reason[FIKIT_REASON_BYTES];
  const struct fikit_hello hello = {.head = {FIKIT_MSG_HELLO, sizeof hello},
                                    .version = FIKIT_PROTOCOL_OLDEST,
                                    .purpose = FIKIT_PURPOSE_JOIN,
                                    .newest = FIKIT_PROTOCOL_VERSION};
  int fd = fikit_ask(socket_path, &hello, FIKIT_ANSWER_S, reason);
  if (fd >= 0 && fikit_hear_join(fd, reason) == FIKIT_MANAGED) {
    place = fd;
    place_file = fikit_file_id(fd);
    return true;
  }
  fikit_log("this program runs outside MPS, in time slices of its own: %s.", reason);
  return false;
}

/* Forget the place, and close its descriptor unless the program has closed or reused that. `last`: a packet to send before; or NULL. */
static void leave(const struct fikit_outside *last) {
  if (place >= 0 && fikit_same_file(fikit_file_id(place), place_file)) {
    if (last)
      (void)send(place, last, sizeof *last, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(place);
  }
  place = -1;
}

/* cuInit with the pipe directory `nowhere`. False: no memory for that, and the driver was not called. */
static bool begin_outside(unsigned flags, const char *nowhere, CUresult *result) {
  const char *pipes = getenv(PIPES);
  char *before = pipes ? strdup(pipes) : NULL;
  /* The variable exists, so that setenv changes one pointer: other threads may read the environment meanwhile. */
  bool outside = before && setenv(PIPES, nowhere, 1) == 0;
  if (outside) {
    *result = REAL(cuInit)(flags);
    setenv(PIPES, before, 1);
  }
  free(before);
  return outside;
}

/* The driver refused this program as a client of MPS: its one second try. If that fails as well, the program gets the first error. */
static CUresult try_outside(unsigned flags, const char *nowhere, CUresult refusal) {
  CUresult again;
  if (!begin_outside(flags, nowhere, &again))
    return refusal;
  answer = OUTSIDE;
  const struct fikit_outside last = {.head = {FIKIT_MSG_OUTSIDE, sizeof last}, .refusal = refusal, .outside = again};
  leave(&last);
  if (again != CUDA_SUCCESS) {
    fikit_log("the driver refused this program as a client of MPS (CUDA error %d), and did not start outside MPS either (CUDA error %d): the "
              "program gets the first error.", refusal, again);
    return refusal;
  }
  fikit_log("this program runs outside MPS, in time slices of its own: the driver refused it as a client of MPS (CUDA error %d).", refusal);
  return again;
}

/* Under `beginning`. */
static CUresult begin(unsigned flags, const char *socket_path, const char *nowhere) {
  CUresult result;
  if (answer == UNASKED)
    answer = may_join(socket_path) ? INSIDE : OUTSIDE;
  if (answer == OUTSIDE && begin_outside(flags, nowhere, &result))
    return result;
  result = REAL(cuInit)(flags);
  bool refused = result >= FIRST_REFUSAL && result <= LAST_REFUSAL;
  return refused ? try_outside(flags, nowhere, result) : result;
}

static bool has_begun(void) {
  return atomic_load_explicit(&begun, memory_order_acquire);
}

CUresult cuInit(unsigned flags) {
  char nowhere[FIKIT_PATH_BYTES];
  const char *socket_path = getenv(FIKIT_ENV_SOCKET);
  /* A signal handler that interrupted this very call does not wait for it. */
  if (has_begun() || !told_to_join(socket_path, nowhere) || !fikit_lock_around_for(&beginning, PATIENCE_NS))
    return REAL(cuInit)(flags);
  CUresult result = has_begun() ? REAL(cuInit)(flags) : begin(flags, socket_path, nowhere);
  if (result == CUDA_SUCCESS)
    atomic_store_explicit(&begun, true, memory_order_release);
  fikit_unlock_around_for(&beginning);
  return result;
}

void fikit_mps_denied(void) {
  const struct fikit_outside last = {.head = {FIKIT_MSG_OUTSIDE, sizeof last}};
  if (place < 0)
    return;
  leave(&last);
  fikit_log("this program runs outside MPS, in time slices of its own: the driver found no MPS server in the directory of " PIPES ".");
}

void fikit_mps_forget(void) {
  leave(NULL);
  answer = UNASKED;
  atomic_store_explicit(&begun, false, memory_order_relaxed);
  atomic_store_explicit(&beginning, false, memory_order_relaxed);
}
