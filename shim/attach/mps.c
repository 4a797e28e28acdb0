/*
 * Before cuInit a program whose job was told to join MPS asks fikitd whether it may. An MPS server takes a limited number of clients, and
 * none after a fatal fault or its own end; the driver's cuInit would fail then. A program that may not join, or gets no answer, sets a pipe
 * directory without a server for the time of cuInit: then the driver works as without MPS (nvidia-cuda-mps-control(1)).
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
#include <unistd.h>

#define PIPES "CUDA_MPS_PIPE_DIRECTORY"

FIKIT_LOCK(asking);
static atomic_bool asked;
static int place = -1; /* the connection that keeps this process's place at the server */
static struct fikit_file_id place_file;

/* Was the program told to join a server of fikitd's? Its pipe directory is below the directory of fikitd's socket then. */
static bool told_to_join(const char *socket_path, char nowhere[FIKIT_PATH_BYTES]) {
  const char *pipes = getenv(PIPES);
  const char *slash = socket_path ? strrchr(socket_path, '/') : NULL;
  if (!pipes || !slash)
    return false;
  int length = snprintf(nowhere, FIKIT_PATH_BYTES, "%.*s/" FIKIT_MPS_DIRECTORY "/", (int)(slash - socket_path), socket_path);
  if (length <= 0 || length + sizeof "outside" > FIKIT_PATH_BYTES || strncmp(pipes, nowhere, (size_t)length) != 0)
    return false;
  memcpy(nowhere + length, "outside", sizeof "outside"); /* fikitd makes no such directory */
  return true;
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

/* Returns the variable's value, to be restored after cuInit; NULL: the variable was not changed. */
static char *decide(void) {
  char nowhere[FIKIT_PATH_BYTES];
  const char *socket_path = getenv(FIKIT_ENV_SOCKET);
  if (!told_to_join(socket_path, nowhere) || may_join(socket_path))
    return NULL;
  const char *pipes = getenv(PIPES);
  char *before = pipes ? strdup(pipes) : NULL;
  /* The variable exists, so that setenv changes one pointer: other threads may read the environment meanwhile. */
  if (before && setenv(PIPES, nowhere, 1) == 0)
    return before;
  free(before);
  return NULL;
}

CUresult cuInit(unsigned flags) {
  char *before = NULL;
  if (!atomic_load_explicit(&asked, memory_order_acquire) && fikit_lock(&asking)) {
    if (!atomic_load_explicit(&asked, memory_order_relaxed)) {
      before = decide();
      atomic_store_explicit(&asked, true, memory_order_release);
    }
    fikit_unlock(&asking);
  }
  CUresult result = REAL(cuInit)(flags); /* other threads' calls wait inside it */
  if (before)
    setenv(PIPES, before, 1);
  free(before);
  return result;
}

void fikit_mps_forget(void) {
  if (place >= 0 && fikit_same_file(fikit_file_id(place), place_file))
    close(place);
  place = -1;
  atomic_store_explicit(&asked, false, memory_order_relaxed);
}
