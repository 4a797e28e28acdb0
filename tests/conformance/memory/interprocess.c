/* Memory and events of one process in another. */
#include <sys/wait.h>
#include <unistd.h>

#include "../conformance.h"

typedef struct {
  char bytes[64];
} IpcHandle;

CUresult cuIpcGetMemHandle(IpcHandle *, CUdeviceptr), cuIpcOpenMemHandle_v2(CUdeviceptr *, IpcHandle, unsigned), cuIpcCloseMemHandle(CUdeviceptr);
CUresult cuIpcGetEventHandle(IpcHandle *, CUevent), cuIpcOpenEventHandle(CUevent *, IpcHandle);

enum { LAZY_PEER_ACCESS = 1, DISABLE_TIMING = 2, INTERPROCESS = 4 };

typedef struct {
  IpcHandle memory, event;
} Offer;

static void say(int pipe, char what) { CHECK(write(pipe, &what, 1) == 1); }

static char hear(int pipe) {
  char what = 0;
  CHECK(read(pipe, &what, 1) == 1);
  return what;
}

/* Opens what the other process offers, orders its work after the other's, and adds 1. */
static int importer(int from, int to) {
  Offer offer;
  CUcontext context;
  CUdeviceptr memory, twice;
  CUevent event;
  CUstream stream;
  CUmodule module = open_device(&context);
  CHECK(read(from, &offer, sizeof offer) == sizeof offer);
  OK(cuStreamCreate(&stream, 1));
  see("open", cuIpcOpenMemHandle_v2(&memory, offer.memory, LAZY_PEER_ACCESS));
  see("open_without_flag", cuIpcOpenMemHandle_v2(&twice, offer.memory, 0));
  OK(cuIpcOpenMemHandle_v2(&twice, offer.memory, LAZY_PEER_ACCESS));
  see("opened_again_is_the_same", twice == memory);
  see("what_was_there_before", word(memory + 4));
  see("open_event", cuIpcOpenEventHandle(&event, offer.event));
  see("event_without_record", cuEventQuery(event));
  say(to, 'r'); /* ready: now the other one works */
  CHECK(hear(from) == 'w');
  OK(cuStreamWaitEvent(stream, event, 0));
  OK(increment(kernel(module, "emu_increment"), memory, stream));
  OK(cuStreamSynchronize(stream));
  see("after_the_others_work", word(memory));
  see("event_then", cuEventQuery(event));
  OK(cuEventRecord(event, stream));
  OK(cuEventSynchronize(event));
  say(to, 'd');
  CHECK(hear(from) == 'e');
  see("close", cuIpcCloseMemHandle(memory));
  OK(cuIpcCloseMemHandle(memory));
  see("close_once_too_often", cuIpcCloseMemHandle(memory));
  OK(cuEventDestroy_v2(event));
  fflush(stdout);
  return 0;
}

int main(void) {
  int there[2], back[2], status;
  CHECK(pipe(there) == 0 && pipe(back) == 0);
  const pid_t child = fork(); /* before the driver starts: a child of a process with CUDA has none */
  if (child == 0) return importer(there[0], back[1]);

  CUcontext context;
  CUmodule module = open_device(&context);
  CUstream stream;
  CUevent event, plain;
  Offer offer;
  OK(cuStreamCreate(&stream, 1));
  CUdeviceptr memory = zeroed(4096);
  uint32_t value = 7;
  OK(cuMemcpyHtoD_v2(memory + 4, &value, 4));
  see("timed_interprocess_event", cuEventCreate(&plain, INTERPROCESS));
  OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
  see("get_handle", cuIpcGetMemHandle(&offer.memory, memory));
  see("contents_are_kept", word(memory + 4));
  see("handle_of_nothing", cuIpcGetMemHandle(&offer.memory, 64));
  OK(cuIpcGetMemHandle(&offer.memory, memory));
  see("get_event_handle", cuIpcGetEventHandle(&offer.event, event));
  CHECK(write(there[1], &offer, sizeof offer) == sizeof offer);
  CHECK(hear(back[0]) == 'r');
  spin(kernel(module, "fikit_spin"), LONG_NS, stream);
  OK(increment(kernel(module, "emu_increment"), memory, stream));
  OK(cuEventRecord(event, stream));
  see("event_is_not_yet_there", cuEventQuery(event));
  say(there[1], 'w');
  /* No call of the driver until the other process is done. */
  CHECK(hear(back[0]) == 'd');
  see("event_of_the_other_process", cuEventSynchronize(event));
  see("both_added", word(memory));
  say(there[1], 'e');
  CHECK(waitpid(child, &status, 0) == child);
  see("other_process", status);
  see("free", cuMemFree_v2(memory));
  return 0;
}
