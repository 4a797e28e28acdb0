#include "attach/connect.h"
#include "fikit_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOWEST_FD = 64 };
enum { PAGE, DOORBELL, MEMORY, DESCRIPTORS }; /* descriptors that come with a WELCOME */

/* Move a descriptor away from 0-2 and from the small numbers that programs close or reuse by habit. */
static int moved_up(int fd) {
  if (fd < 0)
    return fd;
  int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
  if (high < 0 && fd > STDERR_FILENO)
    return fd;
  close(fd);
  return high;
}

static bool failed(char reason[FIKIT_REASON_BYTES], const char *what) {
  snprintf(reason, FIKIT_REASON_BYTES, "%s", what);
  return false;
}

static bool failed_errno(char reason[FIKIT_REASON_BYTES]) {
  if (errno != EAGAIN)
    return failed(reason, strerror(errno));
  snprintf(reason, FIKIT_REASON_BYTES, "no answer within %d s", FIKIT_ANSWER_S);
  return false;
}

/* The directory of the sockets for one user each, beside the common one (fikitd/daemon/user_sockets.py), or -1. */
static int users_directory(const char *path) {
  char directory[sizeof ((struct sockaddr_un *)0)->sun_path + sizeof FIKIT_USERS_DIRECTORY];
  const char *slash = strrchr(path, '/');
  if (!slash || strcmp(slash + 1, FIKIT_SOCKET_NAME) != 0)
    return -1;
  int length = snprintf(directory, sizeof directory, "%.*s/%s", (int)(slash - path), path, FIKIT_USERS_DIRECTORY);
  if (length < 0 || (size_t)length >= sizeof directory)
    return -1;
  return moved_up(open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC));
}

static bool everybodys_path(const char *path, struct sockaddr_un *address) {
  size_t bytes = strlen(path) + 1;
  if (bytes > sizeof address->sun_path)
    return false;
  memcpy(address->sun_path, path, bytes);
  return true;
}

/* False: errno has the reason; EAGAIN: the socket's queue is full. */
static bool connected(int fd, const struct sockaddr_un *address) {
  int result;
  do
    result = connect(fd, (const struct sockaddr *)address, sizeof *address);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

/* Connects to the user's own socket, whose queue no other user can fill. Its path may be too long for an address, so it is named through
 * its directory's descriptor. */
static bool connected_to_own(int fd, const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int directory = users_directory(path);
  if (directory < 0)
    return false;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%u.sock", directory, (unsigned)geteuid());
  bool done = connected(fd, &address);
  int why = errno;
  close(directory);
  errno = why;
  return done;
}

static int open_socket(const char *path, int patience_s, char reason[FIKIT_REASON_BYTES]) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct timeval timeout = {.tv_sec = patience_s};
  int fd = moved_up(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (patience_s ? 0 : SOCK_NONBLOCK), 0));
  if (fd < 0) {
    failed_errno(reason);
    return -1;
  }
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  if (connected_to_own(fd, path))
    return fd;
  if (!everybodys_path(path, &address))
    failed(reason, "path too long for a socket");
  else if (connected(fd, &address))
    return fd;
  else
    failed_errno(reason);
  close(fd);
  return -1;
}

/* One packet with its descriptors; fds[] = -1 where none came. The kernel closes descriptors beyond these. */
static ssize_t receive(int fd, void *packet, size_t bytes, int fds[DESCRIPTORS], int flags) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
  } control;
  struct iovec part = {packet, bytes};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = CMSG_LEN(DESCRIPTORS * sizeof(int))};
  ssize_t got;
  for (int i = 0; i < DESCRIPTORS; i++)
    fds[i] = -1;
  do
    got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | flags);
  while (got < 0 && errno == EINTR);
  struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
    memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
  for (int i = 0; i < DESCRIPTORS; i++)
    fds[i] = moved_up(fds[i]);
  return got;
}

/* Only a file that cannot shrink is mapped: a read beyond the end of a shrunk one would kill the program with SIGBUS. */
static void *map_sealed(int memfd, size_t bytes, char reason[FIKIT_REASON_BYTES]) {
  int seals = fcntl(memfd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || lseek(memfd, 0, SEEK_END) < (off_t)bytes) {
    failed(reason, "its page is not a sealed memory file of the expected size");
    return NULL;
  }
  void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (address == MAP_FAILED) {
    failed_errno(reason);
    return NULL;
  }
  return address;
}

static bool map_pages(const int fds[DESCRIPTORS], const struct fikit_welcome *welcome,
                      struct fikit_connection *connection, char reason[FIKIT_REASON_BYTES]) {
  struct fikit_page *page = map_sealed(fds[PAGE], fikit_page_file_bytes(welcome->version), reason);
  struct fikit_memory *memory = page ? map_sealed(fds[MEMORY], sizeof *memory, reason) : NULL;
  bool fits = memory && page->magic == FIKIT_PAGE_MAGIC && page->version == welcome->version &&
              page->page_bytes == sizeof *page && memory->magic == FIKIT_MEMORY_MAGIC &&
              memory->version == FIKIT_MEMORY_VERSION && memory->memory_bytes == sizeof *memory;
  if (fits) {
    connection->page = page;
    connection->plan = welcome->version >= FIKIT_SINCE_PLANS ? fikit_plan_behind(page) : NULL;
    connection->memory = memory;
    connection->share = &memory->share[welcome->memory_share];
    return true;
  }
  if (memory)
    failed(reason, "its page has another layout: it is another version of fikit");
  if (page)
    munmap(page, fikit_page_file_bytes(welcome->version));
  if (memory)
    munmap(memory, sizeof *memory);
  return false;
}

static bool offered(const struct fikit_hello *hello, uint32_t version) {
  return version == hello->version || (version > hello->version && version <= hello->newest);
}

static bool is_refusal(const struct fikit_message_head *head, ssize_t got) {
  return got == (ssize_t)sizeof(struct fikit_refused) && head->type == FIKIT_MSG_REFUSED;
}

static bool refused(const struct fikit_refused *refusal, char reason[FIKIT_REASON_BYTES]) {
  if (!refusal->reason[0])
    return failed(reason, "it refuses and does not say why");
  snprintf(reason, FIKIT_REASON_BYTES, "%.*s", FIKIT_REASON_BYTES - 1, refusal->reason);
  return false;
}

static bool understand(const struct fikit_hello *hello, const void *packet, ssize_t got, const int fds[DESCRIPTORS],
                       struct fikit_connection *connection, char reason[FIKIT_REASON_BYTES]) {
  const struct fikit_welcome *welcome = packet;
  if (got < 0)
    return failed_errno(reason);
  if (got == 0)
    return failed(reason, "it closed the connection");
  if (is_refusal(packet, got))
    return refused(packet, reason);
  if (got != (ssize_t)sizeof *welcome || welcome->head.type != FIKIT_MSG_WELCOME ||
      welcome->head.bytes != sizeof *welcome || !offered(hello, welcome->version) ||
      welcome->page_bytes != fikit_page_file_bytes(welcome->version) || welcome->memory_bytes != sizeof(struct fikit_memory) ||
      welcome->memory_share >= FIKIT_MEMORY_SHARES || fds[PAGE] < 0 || fds[DOORBELL] < 0 || fds[MEMORY] < 0)
    return failed(reason, "its answer is not understood: it is another version of fikit");
  return map_pages(fds, welcome, connection, reason);
}

int fikit_ask(const char *path, const struct fikit_hello *hello, int patience_s, char reason[FIKIT_REASON_BYTES]) {
  int fd = open_socket(path, patience_s, reason);
  if (fd < 0)
    return -1;
  /* EPIPE: fikitd refused before it read the hello; its answer can be read all the same. */
  if (send(fd, hello, sizeof *hello, MSG_NOSIGNAL) == (ssize_t)sizeof *hello || errno == EPIPE)
    return fd;
  failed_errno(reason);
  close(fd);
  return -1;
}

enum fikit_answer fikit_hear(int fd, const struct fikit_hello *hello, bool wait, struct fikit_connection *connection,
                             char reason[FIKIT_REASON_BYTES]) {
  _Alignas(8) char packet[FIKIT_MESSAGE_BYTES];
  int fds[DESCRIPTORS];
  ssize_t got = receive(fd, packet, sizeof packet, fds, wait ? 0 : MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) {
    failed_errno(reason);
    return FIKIT_NO_ANSWER;
  }
  bool welcome = understand(hello, packet, got, fds, connection, reason);
  for (int i = 0; i < DESCRIPTORS; i++)
    if (fds[i] >= 0 && !(welcome && i == DOORBELL))
      close(fds[i]);
  if (!welcome) {
    close(fd);
    return FIKIT_NOT_MANAGED;
  }
  connection->socket = fd;
  connection->doorbell = fds[DOORBELL];
  return FIKIT_MANAGED;
}

enum fikit_answer fikit_hear_join(int fd, char reason[FIKIT_REASON_BYTES]) {
  _Alignas(8) char packet[FIKIT_MESSAGE_BYTES];
  int fds[DESCRIPTORS];
  const struct fikit_message_head *head = (const void *)packet;
  const ssize_t got = receive(fd, packet, sizeof packet, fds, 0);
  for (int i = 0; i < DESCRIPTORS; i++)
    if (fds[i] >= 0)
      close(fds[i]);
  if (got == (ssize_t)sizeof *head && head->type == FIKIT_MSG_JOIN && head->bytes == sizeof *head)
    return FIKIT_MANAGED;
  if (got < 0)
    failed_errno(reason);
  else if (is_refusal(head, got))
    refused((const void *)packet, reason);
  else
    failed(reason, "fikitd's answer is not understood: it is another version of fikit");
  close(fd);
  return FIKIT_NOT_MANAGED;
}

void fikit_disconnect(const struct fikit_connection *connection) {
  munmap(connection->page, sizeof *connection->page + (connection->plan ? sizeof *connection->plan : 0));
  munmap(connection->memory, sizeof *connection->memory);
  close(connection->socket);
  close(connection->doorbell);
}
