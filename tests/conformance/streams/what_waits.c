/* Which calls wait for work that is under way in a stream that nobody named: 1 if they do. */
#include "../graphs.h"

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned), cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice), cuMemPoolTrimTo(CUmemoryPool, size_t);

enum { BUSY_NS = 400000000, FRESH_NS = 150000000, PAGE = 4096, LARGE = 64 << 20 };

static CUfunction g_spin;
static CUstream g_busy;
static int64_t g_since;

/* The stream is at work, and will be for a while. */
static void begin(void) {
  if (g_since && cuStreamQuery(g_busy) != 0 && now_ns() - g_since < FRESH_NS) return;
  OK(cuStreamSynchronize(g_busy));
  spin(g_spin, BUSY_NS, g_busy);
  g_since = now_ns();
}

static void looked(const char *name) { see(name, cuStreamQuery(g_busy) == 0); }

#define WAITS(name, call) \
  do {                    \
    begin();              \
    OK(call);             \
    looked(name);         \
  } while (0)

static void memory(void) {
  static _Alignas(PAGE) char page[2 * PAGE];
  CUdeviceptr small, large, in_order, address;
  CUmemoryPool pool;
  void *pinned;
  char host[256] = {0};
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  WAITS("register", cuMemHostRegister_v2(page, PAGE, 2));
  WAITS("address_of_registered", cuMemHostGetDevicePointer_v2(&address, page, 0));
  WAITS("unregister", cuMemHostUnregister(page));
  WAITS("host_memory", cuMemHostAlloc(&pinned, LARGE, 0));
  WAITS("free_host_memory", cuMemFreeHost(pinned));
  WAITS("memory", cuMemAlloc_v2(&small, PAGE));
  WAITS("much_memory", cuMemAlloc_v2(&large, LARGE));
  WAITS("copy_in", cuMemcpyHtoD_v2(small, host, sizeof host));
  WAITS("copy_out", cuMemcpyDtoH_v2(host, small, sizeof host));
  WAITS("memset", cuMemsetD8_v2(small, 0, PAGE));
  OK(cuStreamSynchronize(NULL)); /* a device may run it behind the work */
  WAITS("free_memory", cuMemFree_v2(small));
  WAITS("free_much_memory", cuMemFree_v2(large));
  CUstream other = new_stream(1);
  WAITS("memory_in_order", cuMemAllocAsync(&in_order, PAGE, other));
  WAITS("free_in_order", cuMemFreeAsync(in_order, other));
  WAITS("trim", cuMemPoolTrimTo(pool, 0));
  OK(cuMemAllocAsync(&in_order, PAGE, other));
  WAITS("free_at_once_what_came_in_order", cuMemFree_v2(in_order));
}

static void others(void) {
  CUmodule module;
  CUfunction f;
  CUstream stream;
  CUevent event;
  CUdeviceptr counter = zeroed(4);
  CUgraph graph = new_graph();
  CUgraphExec exec;
  WAITS("module", cuModuleLoadData(&module, kPtx));
  WAITS("function", cuModuleGetFunction(&f, module, "emu_check_order"));
  WAITS("new_stream", cuStreamCreate(&stream, 1));
  add_check(graph, NULL, f, counter, 0);
  WAITS("instantiate", cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
  WAITS("graph", cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  see("it_ran_beside", word(counter));
  WAITS("destroy_graph", cuGraphExecDestroy(exec));
  WAITS("event", cuEventCreate(&event, 2));
  WAITS("destroy_event", cuEventDestroy_v2(event));
  WAITS("destroy_stream", cuStreamDestroy_v2(stream));
  OK(cuStreamSynchronize(g_busy));
  WAITS("unload", cuModuleUnload(module));
}

int main(void) {
  CUcontext context;
  g_spin = kernel(open_device(&context), "fikit_spin");
  g_busy = new_stream(1);
  memory();
  others();
  return 0;
}
