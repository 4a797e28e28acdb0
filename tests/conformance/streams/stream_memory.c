/* Stream memory operations: words that streams write, and wait for. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../graphs.h"

CUresult cuStreamWriteValue64_v2(CUstream, CUdeviceptr, uint64_t, unsigned), cuStreamWaitValue64_v2(CUstream, CUdeviceptr, uint64_t, unsigned);
CUresult cuStreamBatchMemOp_v2(CUstream, unsigned, MemOp *, unsigned), cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned);

enum { AT_LEAST = 0, AND = 2, WRITE_64 = 5 };

static volatile uint32_t *g_page; /* shared with a child, registered with the driver */
static CUdeviceptr g_page_on_device;

static void register_page(void) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  g_page = page;
}

/* Another process waits until word 0 has a value, then answers in word 1. Returns its pid. */
static pid_t watcher(void) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (int tries = 0; tries < 20000 && __atomic_load_n(&g_page[0], __ATOMIC_ACQUIRE) != 7; ++tries) usleep(1000);
  const int ordered = g_page[2] == 5; /* written to the page before the flag */
  __atomic_store_n(&g_page[1], 9, __ATOMIC_RELEASE);
  _exit(ordered ? 0 : 1);
}

int main(void) {
  register_page();
  const pid_t pid = watcher(); /* before the driver starts: a child of a process with CUDA has none */
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction f = kernel(module, "fikit_spin"), add = kernel(module, "emu_increment");
  CUstream stream;
  CUdeviceptr memory = zeroed(4096);
  int status;
  OK(cuStreamCreate(&stream, 1));
  OK(cuMemHostRegister_v2((void *)(uintptr_t)g_page, 4096, 2));
  OK(cuMemHostGetDevicePointer_v2(&g_page_on_device, (void *)(uintptr_t)g_page, 0));

  spin(f, LONG_NS, stream);
  see("write_page", cuStreamWriteValue32_v2(stream, g_page_on_device + 8, 5, 0));
  OK(cuStreamWriteValue32_v2(stream, g_page_on_device, 7, 0));
  see("nothing_is_written_before_its_turn", g_page[0] == 0 && g_page[2] == 0);
  see("wait_for_other_process", cuStreamWaitValue32_v2(stream, g_page_on_device + 4, 9, EQUAL));
  OK(increment(add, memory, stream));
  /* No call of the driver until the other process has seen the word. */
  CHECK(waitpid(pid, &status, 0) == pid);
  see("other_process_saw_them_in_order", status);
  OK(cuStreamSynchronize(stream));
  see("work_after_the_wait", word(memory));

  spin(f, LONG_NS, stream);
  OK(cuStreamWriteValue32_v2(stream, g_page_on_device + 12, 6, 0));
  for (int tries = 0; tries < 5000 && g_page[3] != 6; ++tries) usleep(1000); /* no call of the driver meanwhile */
  see("written_while_the_host_looks_on", g_page[3]);

  OK(cuStreamWaitValue32_v2(stream, memory + 16, 3, AT_LEAST));
  OK(increment(add, memory, stream));
  usleep(5000);
  see("stream_that_waits", cuStreamQuery(stream));
  CUstream other;
  OK(cuStreamCreate(&other, 1));
  OK(cuStreamWriteValue32_v2(other, memory + 16, 4, 0));
  OK(cuStreamSynchronize(stream));
  see("released_by_another_stream", word(memory));

  OK(cuStreamWriteValue64_v2(stream, memory + 24, 0x100000002ull, 0));
  OK(cuStreamWaitValue64_v2(stream, memory + 24, 0x100000000ull, AND));
  OK(cuStreamSynchronize(stream));
  see("high_half_of_64_bits", word(memory + 28));
  MemOp batch[] = {{WRITE_32, memory + 32, 11, 0, {0}}, {WRITE_64, memory + 40, 12, 0, {0}}};
  see("batch", cuStreamBatchMemOp_v2(stream, 2, batch, 0));
  OK(cuStreamSynchronize(stream));
  see("batch_first", word(memory + 32));
  see("batch_second", word(memory + 40));
  see("odd_address", cuStreamWriteValue32_v2(stream, memory + 1, 1, 0));
  return 0;
}
