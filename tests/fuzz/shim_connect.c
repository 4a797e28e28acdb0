/*
 * What the shim reads from whoever answers at fikitd's socket: arbitrary packets with arbitrary descriptors. Whatever comes,
 * it is understood or refused with a reason, and nothing is left open.
 *
 * A libFuzzer target (`make fuzz`); with -DALONE a program of its own: shim_connect RUNS mutates known answers, the same
 * ones every time.
 */
#include "attach/connect.h"
#include "fikit_rules.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The input: first what comes with the packet, then the packet. */
struct answer {
  uint8_t descriptors; /* how many: 0 to 4 */
  uint8_t faults;      /* of the descriptors: enum fault; and whether the shim asks to join MPS */
  uint16_t spoil;      /* where a word of the page is overwritten */
  uint8_t packet[FIKIT_MESSAGE_BYTES];
};
enum { HEAD = offsetof(struct answer, packet) };
enum fault { UNSEALED = 1, SHORT = 2, NOT_MEMORY = 4, SPOILT_PAGE = 8, SPOILT_MEMORY = 16, OLD = 32, ASKS_TO_JOIN = 64 };

static int listener = -1;
static char path[108];
static struct answer answer;
static size_t packet_bytes;

static int memory_file(size_t bytes, size_t behind, unsigned faults, bool spoilt, uint32_t magic, uint32_t version, unsigned version_at,
                       unsigned bytes_at) {
  int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  uint32_t size = (uint32_t)bytes;
  if (ftruncate(fd, (off_t)(faults & SHORT ? bytes / 2 : bytes + behind)) != 0 || pwrite(fd, &magic, 4, 0) != 4 ||
      pwrite(fd, &version, 4, version_at) != 4 || pwrite(fd, &size, 4, bytes_at) != 4 ||
      (spoilt && pwrite(fd, "spoilt", 6, answer.spoil % 64) != 6))
    abort();
  if (!(faults & UNSEALED))
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return fd;
}

static void send_answer(int client) {
  int fds[4] = {
      answer.faults & NOT_MEMORY
          ? open("/dev/null", O_RDWR)
          : memory_file(sizeof(struct fikit_page), sizeof(struct fikit_plan), answer.faults, answer.faults & SPOILT_PAGE, FIKIT_PAGE_MAGIC,
                        answer.faults & OLD ? FIKIT_PROTOCOL_OLDEST : FIKIT_PROTOCOL_VERSION,
                        offsetof(struct fikit_page, version), offsetof(struct fikit_page, page_bytes)),
      eventfd(0, EFD_NONBLOCK),
      memory_file(sizeof(struct fikit_memory), 0, answer.faults, answer.faults & SPOILT_MEMORY, FIKIT_MEMORY_MAGIC,
                  FIKIT_MEMORY_VERSION, offsetof(struct fikit_memory, version), offsetof(struct fikit_memory, memory_bytes)),
      dup(0),
  };
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof fds)];
  } control = {.bytes = {0}};
  struct iovec part = {answer.packet, packet_bytes};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  unsigned count = answer.descriptors % 5;
  if (count) {
    message.msg_control = &control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
  }
  sendmsg(client, &message, MSG_NOSIGNAL);
  for (int i = 0; i < 4; i++)
    close(fds[i]);
}

static void *serve(void *argument) {
  struct fikit_hello hello;
  int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (recv(client, &hello, sizeof hello, 0) == (ssize_t)sizeof hello && packet_bytes)
    send_answer(client);
  close(client);
  return argument;
}

static void listen_once(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (listener >= 0)
    return;
  snprintf(path, sizeof path, "/tmp/fikit-fuzz-%d.sock", (int)getpid());
  memcpy(address.sun_path, path, sizeof path);
  listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4) != 0)
    abort();
}

static int open_descriptors(void) {
  int count = 0;
  DIR *directory = opendir("/proc/self/fd");
  while (directory && readdir(directory))
    count++;
  closedir(directory);
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fikit_hello hello = {
      .head = {FIKIT_MSG_HELLO, sizeof hello}, .version = FIKIT_PROTOCOL_OLDEST, .newest = FIKIT_PROTOCOL_VERSION};
  struct fikit_connection connection;
  char reason[FIKIT_REASON_BYTES] = "";
  pthread_t server;
  if (size < HEAD || size > sizeof answer)
    return 0;
  listen_once();
  memset(&answer, 0, sizeof answer);
  memcpy(&answer, data, size);
  packet_bytes = size - HEAD;
  int before = open_descriptors();
  const bool joins = answer.faults & ASKS_TO_JOIN;
  hello.purpose = joins ? FIKIT_PURPOSE_JOIN : FIKIT_PURPOSE_WORK;
  pthread_create(&server, NULL, serve, NULL);
  int asked = fikit_ask(path, &hello, FIKIT_ANSWER_S, reason);
  bool connected = asked >= 0 && (joins ? fikit_hear_join(asked, reason)
                                        : fikit_hear(asked, &hello, true, &connection, reason)) == FIKIT_MANAGED;
  pthread_join(server, NULL);
  if (connected && joins) { /* its place at the MPS server is this connection, and nothing else */
    close(asked);
  } else if (connected) { /* all of what it promises is there */
    if (connection.page->version < FIKIT_PROTOCOL_OLDEST || connection.page->version > FIKIT_PROTOCOL_VERSION)
      abort();
    volatile uint32_t touch = connection.page->ring[FIKIT_RING_ENTRIES - 1].slot;
    atomic_fetch_add(&connection.share->held_bytes, touch);
    fikit_disconnect(&connection);
  } else if (!reason[0] || !memchr(reason, 0, sizeof reason)) {
    abort();
  }
  if (open_descriptors() != before)
    abort();
  return 0;
}

#ifdef ALONE
static uint32_t state = 1;

static uint32_t dice(uint32_t sides) { /* xorshift: the same numbers every time */
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state % sides;
}

int main(int argc, char **argv) {
  long runs = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
  struct fikit_welcome welcome = {.head = {FIKIT_MSG_WELCOME, sizeof welcome},
                                  .version = FIKIT_PROTOCOL_VERSION,
                                  .page_bytes = fikit_page_file_bytes(FIKIT_PROTOCOL_VERSION),
                                  .memory_bytes = sizeof(struct fikit_memory)};
  struct fikit_refused refused = {{FIKIT_MSG_REFUSED, sizeof refused}, ""};
  struct fikit_message_head join = {FIKIT_MSG_JOIN, sizeof join};
  const struct {
    const void *bytes;
    size_t size;
    uint8_t faults;
  } known[] = {{&welcome, sizeof welcome, 0},
               {&refused, sizeof refused, 0},
               {&join, sizeof join, ASKS_TO_JOIN},
               {&refused, sizeof refused, ASKS_TO_JOIN},
               {&welcome, sizeof welcome, ASKS_TO_JOIN}}; /* of a fikitd that knows of no MPS */
  enum { KNOWN = sizeof known / sizeof known[0] };
  memset(refused.reason, 'r', sizeof refused.reason);
  for (long run = 0; run < runs; run++) {
    struct answer seed = {.descriptors = 3, .faults = known[run % KNOWN].faults};
    size_t bytes = known[run % KNOWN].size;
    memcpy(seed.packet, known[run % KNOWN].bytes, bytes);
    for (uint32_t i = dice(4); run >= KNOWN && i; i--)
      ((uint8_t *)&seed)[dice((uint32_t)(HEAD + bytes))] = (uint8_t)dice(256);
    if (run >= KNOWN && dice(8) == 0)
      bytes = dice(sizeof seed.packet);
    LLVMFuzzerTestOneInput((uint8_t *)&seed, HEAD + bytes);
  }
  unlink(path);
  printf("%ld answers\n", runs);
  return 0;
}
#endif
