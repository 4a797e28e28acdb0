#include "base/monitor.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <sys/socket.h>

/* Only the end of the connection matters; messages are not for this version. */
bool fikit_connection_ended(const struct fikit_device *device) {
  char packet[FIKIT_MESSAGE_BYTES];
  struct iovec part = {packet, sizeof packet};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  long got = syscall(SYS_recvmsg, device->socket, &message, MSG_DONTWAIT); /* where no thread is cancelled */
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void fikit_monitor_look(struct fikit_device *device, int64_t interval_ns) {
  int64_t now_ns = fikit_now_ns();
  int64_t looked_ns = atomic_load_explicit(&device->looked_ns, memory_order_relaxed);
  if (now_ns - looked_ns < interval_ns || atomic_load_explicit(&device->gone, memory_order_relaxed) ||
      !atomic_compare_exchange_strong(&device->looked_ns, &looked_ns, now_ns))
    return;
  int saved = errno;
  bool closed_by_program = !fikit_descriptors_ours(device);
  if (closed_by_program || fikit_connection_ended(device)) {
    fikit_device_release(device);
    if (!closed_by_program)
      fikit_log("fikitd is gone: this program goes on without priorities.");
  }
  errno = saved;
}
