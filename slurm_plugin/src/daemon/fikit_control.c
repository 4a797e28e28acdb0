#include "fikit_control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_BYTES 4096

int64_t fikit_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t fikit_now_ms(void) {
  return fikit_now_us() / 1000;
}

/* A full backlog makes connect() on a non-blocking Unix socket fail with EAGAIN: wait a little and try again. */
static bool connect_until(int fd, const struct sockaddr_un *address, int64_t deadline_ms) {
  while (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
    if ((errno != EAGAIN && errno != EINTR) || fikit_now_ms() >= deadline_ms)
      return false;
    poll(NULL, 0, 5);
  }
  return true;
}

/* Only root's fikitd, or the own one of the user who runs Slurm, is asked; who else can listen there, nobody should know. */
static bool is_trusted(int fd) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

/* Bytes of the answer, or -1 at the deadline. */
static ssize_t receive_until(int fd, char *answer, size_t size, int64_t deadline_ms) {
  for (;;) {
    const int64_t left_ms = deadline_ms - fikit_now_ms();
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    if (left_ms <= 0 || poll(&readable, 1, (int)left_ms) == 0)
      return -1;
    const ssize_t bytes = recv(fd, answer, size, 0);
    if (bytes >= 0 || (errno != EAGAIN && errno != EINTR))
      return bytes;
  }
}

static bool ask(int fd, const char *request, int64_t deadline_ms, char *payload, size_t size) {
  char answer[ANSWER_BYTES];
  /* EPIPE: a fikitd that refuses unheard has answered all the same. */
  if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0 && errno != EPIPE)
    return false;
  const ssize_t bytes = receive_until(fd, answer, sizeof answer - 1, deadline_ms);
  if (bytes < 0)
    return false;
  answer[bytes] = '\0';
  if (strncmp(answer, "ok", 2) != 0 || (answer[2] != '\n' && answer[2] != '\0'))
    return false;
  if (payload)
    snprintf(payload, size, "%s", answer[2] == '\n' ? answer + 3 : "");
  return true;
}

/* A connection to this socket of the daemon's, or -1. By the directory's descriptor: its path may be longer than an address. */
static int connected(const char *run_dir, const char *name, int64_t deadline_ms) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const int directory = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return -1;
  const int length =
      snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", directory, name);
  int fd = -1;
  if (length > 0 && (size_t)length < sizeof address.sun_path)
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && !connect_until(fd, &address, deadline_ms)) {
    close(fd);
    fd = -1;
  }
  close(directory);
  return fd;
}

/* Root's hooks have a socket that no user can reach, so none can fill it; a fikitd of before has only the other one. */
bool fikit_control(const char *run_dir, const char *request, int timeout_ms, char *payload, size_t size) {
  const int64_t deadline_ms = fikit_now_ms() + timeout_ms;
  int fd = connected(run_dir, "hooks/control.sock", deadline_ms);
  if (fd < 0)
    fd = connected(run_dir, "control.sock", deadline_ms);
  if (fd < 0)
    return false;
  const bool answered = is_trusted(fd) && ask(fd, request, deadline_ms, payload, size);
  close(fd);
  return answered;
}
