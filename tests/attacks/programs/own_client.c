/* A client of its own making, without the shim: it asks fikitd for grants as the shim does, runs kernels of 5 to 50 ms, and reports each as a kernel of 5 us that is over. */
#include "attack.h"
#include "fikit_rules.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

enum { SLOT = 1, MPS_ENABLED = 133 };

static struct fikit_page *page;
static int connection, doorbell;

static void connect_to_fikitd(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct fikit_hello hello = {.head = {FIKIT_MSG_HELLO, sizeof hello}, .version = FIKIT_PROTOCOL_OLDEST, .newest = FIKIT_PROTOCOL_VERSION};
  struct fikit_kernel described = {.head = {FIKIT_MSG_KERNEL, sizeof described}, .slot = SLOT, .grid = {BLOCKS, 1, 1}, .block = {THREADS, 1, 1}, .name = "short"};
  struct fikit_welcome welcome;
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(3 * sizeof(int))];
  } control;
  struct iovec part = {&welcome, sizeof welcome};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  int in_mps = 0, fds[3];
  size_t memory;
  OK(cuDeviceGetAttribute(&in_mps, MPS_ENABLED, 0));
  OK(cuDeviceGetUuid_v2(hello.gpu_uuid, 0));
  OK(cuDeviceGetName(hello.gpu_name, sizeof hello.gpu_name, 0));
  OK(cuDeviceTotalMem_v2(&memory, 0));
  hello.gpu_memory_bytes = memory;
  hello.purpose = (uint16_t)(FIKIT_PURPOSE_WORK | (in_mps ? FIKIT_HELLO_MPS : FIKIT_HELLO_NO_MPS));
  snprintf(address.sun_path, sizeof address.sun_path, "%s", getenv(FIKIT_ENV_SOCKET));
  connection = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  CHECK(connect(connection, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(send(connection, &hello, sizeof hello, 0) == sizeof hello);
  CHECK(recvmsg(connection, &message, 0) == sizeof welcome && welcome.head.type == FIKIT_MSG_WELCOME);
  memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
  page = mmap(NULL, welcome.page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
  CHECK(page != MAP_FAILED);
  doorbell = fds[1];
  CHECK(send(connection, &described, sizeof described, 0) == sizeof described);
}

static void put(enum fikit_entry_kind kind, uint64_t value, int64_t t_ns) {
  const uint64_t i = atomic_fetch_add(&page->ring_head, 1);
  struct fikit_entry *entry = &page->ring[i % FIKIT_RING_ENTRIES];
  atomic_store(&entry->stamp, 0);
  entry->t_ns = t_ns;
  entry->slot = SLOT;
  entry->kind = kind;
  entry->value = value;
  atomic_store(&entry->stamp, i + 1);
  if (!atomic_load(&page->awake))
    CHECK(write(doorbell, &(uint64_t){1}, 8) == 8);
}

/* At the gate, until there is a grant or it opens: number of the grant, 0 at an open gate. */
static uint32_t granted(void) {
  if (fikit_gate_open(page))
    return 0;
  const uint32_t seq = fikit_next_request(atomic_load(&page->request_seq));
  atomic_store(&page->request_slot, SLOT);
  atomic_store(&page->request_copy, FIKIT_COPY_NONE);
  atomic_store(&page->request_ns, now_ns());
  atomic_store(&page->request_seq, seq);
  atomic_store(&page->waiting, 1);
  CHECK(write(doorbell, &(uint64_t){1}, 8) == 8);
  enum fikit_gate_says says;
  for (uint32_t seen; seen = atomic_load(&page->wake), (says = fikit_gate_says(page, seq, FIKIT_COPY_NONE, SLOT)) == FIKIT_SAYS_WAIT && going_on();)
    syscall(SYS_futex, &page->wake, FUTEX_WAIT, seen, &(struct timespec){0, 100 * MS}, NULL, 0);
  atomic_store(&page->waiting, 0);
  return says == FIKIT_SAYS_OPEN ? 0 : says == FIKIT_SAYS_GRANTED ? seq : atomic_load(&page->grant_seq);
}

int main(int argc, char **argv) {
  begin(argc, argv);
  connect_to_fikitd();
  srand(7);
  while (going_on()) {
    const uint32_t grant = granted();
    const int64_t t_ns = now_ns();
    launch((5 + rand() % 46) * MS, NULL);
    atomic_fetch_add(&page->slot_launches[SLOT], 1);
    const uint64_t seq = atomic_fetch_add(&page->launch_seq, 1) + 1;
    put(grant ? FIKIT_ENTRY_GRANTED : FIKIT_ENTRY_LAUNCH, grant ? grant : seq, t_ns);
    pause_ns(5 * US);
    put(FIKIT_ENTRY_SAMPLE, 5 * US, 0);
    if (grant)
      put(FIKIT_ENTRY_DONE, grant, t_ns + 5 * US);
    put(FIKIT_ENTRY_DRAINED, seq, t_ns + 5 * US);
    OK(cuCtxSynchronize());
    ended();
  }
  return finish();
}
