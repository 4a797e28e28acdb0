#include "monitor.h"
#include "loader.h"
#include "say.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

/* Only the daemon's death or the program closing our descriptor ends the wait; later messages are not for this version. */
static void wait_for_end(const struct fikit_device *device) {
  char packet[FIKIT_MESSAGE_BYTES];
  for (;;) {
    struct pollfd waiting = {.fd = device->socket, .events = POLLIN};
    if (poll(&waiting, 1, -1) < 0) {
      if (errno == EINTR || errno == EAGAIN)
        continue;
      return;
    }
    if ((waiting.revents & POLLNVAL) || !fikit_descriptors_ours(device))
      return;
    ssize_t got = recv(device->socket, packet, sizeof packet, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
      return;
  }
}

static void *monitor(void *argument) {
  struct fikit_device *device = argument;
  wait_for_end(device);
  fikit_device_release(device);
  fikit_say("fikitd is gone: this program goes on without priorities.");
  return NULL;
}

void fikit_monitor_start(struct fikit_device *device) {
  typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  typedef int detach_fn(pthread_t);
  create_fn *create = (create_fn *)fikit_pthread_function("pthread_create");
  detach_fn *detach = (detach_fn *)fikit_pthread_function("pthread_detach");
  sigset_t all, before;
  pthread_t thread;
  if (!create || !detach)
    return; /* a process without threads still has the lease */
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before); /* the program's signals go to the program's threads */
  if (create(&thread, NULL, monitor, device) == 0)
    detach(thread);
  sigprocmask(SIG_SETMASK, &before, NULL);
}
