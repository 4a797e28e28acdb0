/* Memory and events between processes and devices, as the emulator's tests drive it. Usage: emu_memory CASE. */
#include <unistd.h>

#include "emu_api.h"

typedef struct {
  char bytes[64];
} IpcHandle;

typedef struct {
  int type, handle_types, location_type, device;
  void *windows;
  char flags[8];
} AllocationProp;

typedef struct {
  int location_type, device, flags;
} AccessDesc;

CUresult cuIpcGetMemHandle(IpcHandle *, CUdeviceptr), cuIpcOpenMemHandle_v2(CUdeviceptr *, IpcHandle, unsigned);
CUresult cuIpcGetEventHandle(IpcHandle *, CUevent), cuIpcOpenEventHandle(CUevent *, IpcHandle);
CUresult cuMemCreate(unsigned long long *, size_t, const AllocationProp *, unsigned long long), cuMemMap(CUdeviceptr, size_t, size_t, unsigned long long, unsigned long long);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const AccessDesc *, size_t);
CUresult cuMemUnmap(CUdeviceptr, size_t), cuCtxSynchronize(void), cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuMemImportFromShareableHandle(unsigned long long *, void *, int);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice), cuMemPoolSetAttribute(CUmemoryPool, int, void *);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice), cuDeviceGetP2PAttribute(int *, int, CUdevice, CUdevice);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned), cuCtxDisablePeerAccess(CUcontext);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuMulticastCreate(unsigned long long *, const void *), cuMemGetHandleForAddressRange(void *, CUdeviceptr, size_t, int, unsigned long long);

enum { UNIT = 2 << 20, MIB = 1 << 20, LAZY_PEER_ACCESS = 1, INTERPROCESS = 4, DISABLE_TIMING = 2 };
static const AllocationProp kProperties = {1, 1, 1, 0, NULL, {0}};

static CUdeviceptr reserved(size_t bytes) {
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  return address;
}

/* Takes 64 MiB by handle, says so, and ends when told, without giving anything back. */
static void holds(void) {
  CUcontext context;
  unsigned long long memory;
  open_device(&context);
  OK(cuMemCreate(&memory, 32 * UNIT, &kProperties, 0));
  OK(cuMemMap(reserved(32 * UNIT), 32 * UNIT, 0, memory, 0));
  puts("holding");
  fflush(stdout);
  _exit(getchar() == EOF);
}

/* What nobody may use is refused: a store there would end this process. */
static void access_rights(void) {
  CUcontext context;
  unsigned long long memory;
  uint32_t value = 5;
  const AccessDesc read_only = {1, 0, 1}, nothing = {1, 0, 0}, all = {1, 0, 3}, host = {2, 0, 3}, write_only = {1, 0, 2};
  open_device(&context);
  OK(cuMemCreate(&memory, UNIT, &kProperties, 0));
  CUdeviceptr address = reserved(2 * UNIT);
  CHECK(cuMemcpyHtoD_v2(address, &value, 4) == 1);
  OK(cuMemMap(address, UNIT, 0, memory, 0));
  CHECK(cuMemcpyHtoD_v2(address, &value, 4) == 1);
  CHECK(cuMemcpyDtoH_v2(&value, address, 4) == 1);
  OK(cuMemSetAccess(address, UNIT, &read_only, 1));
  OK(cuMemcpyDtoH_v2(&value, address, 4));
  CHECK(value == 0);
  CHECK(cuMemsetD8_v2(address, 1, 64) == 1);
  CHECK(cuMemSetAccess(address, UNIT, &host, 1) == 801);
  CHECK(cuMemSetAccess(address, UNIT, &write_only, 1) == 1);
  OK(cuMemSetAccess(address, UNIT, &all, 1));
  OK(cuMemsetD8_v2(address, 1, 64));
  CHECK(cuMemsetD8_v2(address + UNIT - 8, 1, 64) == 1);
  OK(cuMemSetAccess(address, UNIT, &nothing, 1));
  CHECK(cuMemcpyDtoH_v2(&value, address, 4) == 1);
}

/* A kernel that is given unmapped memory ends its context, in a graph as well; what else there is goes on. `graph`: mapped when it was
 * captured, unmapped when it runs. */
static void touches_unmapped(int graph) {
  CUcontext context, other;
  unsigned long long memory;
  CUstream stream;
  CUgraph captured;
  CUgraphExec exec;
  CUdeviceptr plain;
  const AccessDesc all = {1, 0, 3}, nothing = {1, 0, 0};
  CUfunction increment = kernel(open_device(&context), "emu_increment");
  OK(cuMemCreate(&memory, UNIT, &kProperties, 0));
  CUdeviceptr address = reserved(2 * UNIT);
  void *argument[] = {&address};
  OK(cuMemMap(address, UNIT, 0, memory, 0));
  OK(cuMemSetAccess(address, UNIT, &all, 1));
  OK(cuStreamCreate(&stream, 1));
  OK(cuLaunchKernel(increment, 1, 1, 1, 1, 1, 1, 0, stream, argument, NULL));
  OK(cuStreamSynchronize(stream));
  if (graph) {
    OK(cuStreamBeginCapture_v2(stream, 0));
    OK(cuLaunchKernel(increment, 1, 1, 1, 1, 1, 1, 0, stream, argument, NULL));
    OK(cuStreamEndCapture(stream, &captured));
    OK(cuGraphInstantiateWithFlags(&exec, captured, 0));
    OK(cuMemUnmap(address, UNIT));
    OK(cuGraphLaunch(exec, stream));
  } else {
    OK(cuMemSetAccess(address, UNIT, &nothing, 1));
    OK(cuLaunchKernel(increment, 1, 1, 1, 1, 1, 1, 0, stream, argument, NULL));
  }
  CHECK(cuStreamSynchronize(stream) == 700);
  CHECK(cuMemAlloc_v2(&plain, 64) == 700);
  CHECK(cuStreamSynchronize(stream) == 700);
  CHECK(cuCtxSynchronize() == 700);
  OK(cuCtxCreate_v2(&other, 0, 0));
  OK(cuMemAlloc_v2(&plain, 64));
}

static void touches_closed(void) { touches_unmapped(0); }
static void touches_unmapped_in_a_graph(void) { touches_unmapped(1); }

/* Prints how many us each of the calls took at least, of three pieces of 2 MiB. */
static void costs(void) {
  CUcontext context;
  unsigned long long memory;
  const AccessDesc all = {1, 0, 3};
  int64_t at[5];
  open_device(&context);
  CUdeviceptr address = reserved(3 * UNIT);
  at[0] = now_ns();
  OK(cuMemCreate(&memory, 3 * UNIT, &kProperties, 0));
  at[1] = now_ns();
  OK(cuMemMap(address, 3 * UNIT, 0, memory, 0));
  at[2] = now_ns();
  OK(cuMemSetAccess(address, 3 * UNIT, &all, 1));
  at[3] = now_ns();
  OK(cuMemUnmap(address, 3 * UNIT));
  at[4] = now_ns();
  for (int i = 0; i < 4; ++i) printf("%lld ", (long long)(at[i + 1] - at[i]) / 1000);
  puts("");
}

/* What is not the emulator's is no memory, and what it has not is refused. */
static void foreign_handles(void) {
  CUcontext context;
  unsigned long long memory;
  CUdeviceptr opened, mine;
  CUevent event;
  IpcHandle handle = {{1}};
  AllocationProp fabric = kProperties;
  int descriptors[2];
  CHECK(pipe(descriptors) == 0);
  open_device(&context);
  CHECK(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)descriptors[0], 1) == 1);
  CHECK(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)-1, 1) == 1);
  CHECK(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)descriptors[0], 8) == 801);
  CHECK(cuIpcOpenMemHandle_v2(&opened, handle, LAZY_PEER_ACCESS) == 400);
  OK(cuMemAlloc_v2(&mine, 64));
  OK(cuIpcGetMemHandle(&handle, mine));
  CHECK(cuIpcOpenMemHandle_v2(&opened, handle, LAZY_PEER_ACCESS) == 201);
  CHECK(cuIpcOpenEventHandle(&event, handle) == 400);
  fabric.handle_types = 8;
  CHECK(cuMemCreate(&memory, UNIT, &fabric, 0) == 801);
  CHECK(cuMulticastCreate(&memory, &fabric) == 801);
  CHECK(cuMemGetHandleForAddressRange(descriptors, mine, 64, 1, 0) == 801);
}

/* Prints handles of memory and of an event that waits behind two seconds of work; ends when told. */
static void offers(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUstream stream;
  CUevent event;
  CUdeviceptr memory;
  IpcHandle handles[2];
  OK(cuStreamCreate(&stream, 1));
  OK(cuMemAlloc_v2(&memory, 64));
  OK(cuEventCreate(&event, INTERPROCESS | DISABLE_TIMING));
  spin(kernel(module, "fikit_spin"), 60000000000ull, stream);
  OK(cuEventRecord(event, stream));
  OK(cuIpcGetMemHandle(&handles[0], memory));
  OK(cuIpcGetEventHandle(&handles[1], event));
  for (size_t i = 0; i < sizeof handles; ++i) printf("%02x", ((unsigned char *)handles)[i]);
  puts("");
  fflush(stdout);
  _exit(getchar() == EOF);
}

static void read_handles(IpcHandle *handles) {
  for (size_t i = 0; i < 2 * sizeof *handles; ++i) {
    unsigned byte;
    CHECK(scanf("%2x", &byte) == 1);
    ((unsigned char *)handles)[i] = (unsigned char)byte;
  }
}

/* Opens what `offers` printed; then waits for the event, whose process is killed meanwhile. */
static void accepts(void) {
  CUcontext context;
  CUdeviceptr memory;
  CUevent event;
  CUstream stream;
  IpcHandle handles[2];
  open_device(&context);
  read_handles(handles);
  OK(cuStreamCreate(&stream, 1));
  OK(cuIpcOpenMemHandle_v2(&memory, handles[0], LAZY_PEER_ACCESS));
  OK(cuIpcOpenEventHandle(&event, handles[1]));
  OK(cuStreamWaitEvent(stream, event, 0));
  CHECK(cuEventQuery(event) == 600);
  CHECK(cuStreamQuery(stream) == 600);
  puts("waiting");
  fflush(stdout);
  OK(cuEventSynchronize(event));
  OK(cuStreamSynchronize(stream));
  OK(cuMemsetD8_v2(memory, 1, 64));
  puts("released");
}

static void accepts_too_late(void) {
  CUcontext context;
  CUdeviceptr memory;
  CUevent event;
  IpcHandle handles[2];
  open_device(&context);
  read_handles(handles);
  CHECK(cuIpcOpenMemHandle_v2(&memory, handles[0], LAZY_PEER_ACCESS) == 205);
  CHECK(cuIpcOpenEventHandle(&event, handles[1]) == 205);
}

/* The newest record counts, though an older one is reached after it. */
static void event_in_two_streams(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUstream slow, fast;
  CUevent event;
  OK(cuStreamCreate(&slow, 1));
  OK(cuStreamCreate(&fast, 1));
  OK(cuEventCreate(&event, 0));
  spin(kernel(module, "fikit_spin"), 20000000, slow);
  OK(cuEventRecord(event, slow));
  OK(cuEventRecord(event, fast));
  OK(cuEventSynchronize(event));
  CHECK(cuStreamQuery(slow) == 600);
  OK(cuStreamSynchronize(slow));
  OK(cuEventQuery(event));
  OK(cuEventSynchronize(event));
}

/* What a pool keeps is there for whoever needs it. The device has 256 MiB, a context takes 64. */
static void pools_make_room(void) {
  CUcontext context;
  CUmemoryPool pool;
  CUdeviceptr memory;
  uint64_t all = UINT64_MAX;
  size_t available, total;
  open_device(&context);
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemPoolSetAttribute(pool, 4, &all));
  OK(cuMemAllocAsync(&memory, 128 * MIB, NULL));
  CHECK(cuMemAlloc_v2(&memory, 128 * MIB) == 2);
  OK(cuMemFreeAsync(memory, NULL));
  OK(cuCtxSynchronize());
  OK(cuMemGetInfo_v2(&available, &total));
  CHECK(available == 64 * MIB);
  OK(cuMemAlloc_v2(&memory, 128 * MIB));
  CHECK(cuMemAllocAsync(&memory, 128 * MIB, NULL) == 2);
}

typedef struct {
  int type, handle_types, location_type, device;
  void *windows;
  size_t most;
  unsigned short usage;
  unsigned char reserved[54];
} PoolProps;
CUresult cuMemPoolCreate(CUmemoryPool *, const PoolProps *), cuMemPoolDestroy(CUmemoryPool), cuMemPoolTrimTo(CUmemoryPool, size_t);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream), cuMemPoolGetAttribute(CUmemoryPool, int, void *);

/* Memory of a managed pool comes and goes as other managed memory does, and is given back in stream order. The device has 256 MiB. */
static void managed_pool(void) {
  CUcontext context;
  CUmemoryPool pool;
  CUdeviceptr memory[5];
  PoolProps wanted = {.type = 2, .location_type = 1}, bounded = wanted, unknown = wanted;
  uint64_t used = 0;
  size_t available, total;
  int managed = 0;
  bounded.most = MIB;
  unknown.type = 3;
  open_device(&context);
  CHECK(cuMemPoolCreate(&pool, &bounded) == 1);
  CHECK(cuMemPoolCreate(&pool, &unknown) == 1);
  OK(cuMemPoolCreate(&pool, &wanted));
  for (int i = 0; i < 5; ++i) {
    OK(cuMemAllocFromPoolAsync(&memory[i], 64 * MIB, pool, NULL));
    OK(cuMemsetD8_v2(memory[i], (unsigned char)(i + 1), 64 * MIB));
  }
  OK(cuMemGetInfo_v2(&available, &total));
  CHECK(available == 0);
  OK(cuMemPoolGetAttribute(pool, 7, &used));
  CHECK(used == 5 * 64 * MIB);
  OK(cuPointerGetAttribute(&managed, 8, memory[0]));
  CHECK(managed == 1);
  for (int i = 0; i < 5; ++i) {
    unsigned char last = 0;
    OK(cuMemcpyDtoH_v2(&last, memory[i] + 64 * MIB - 1, 1));
    CHECK(last == i + 1);
  }
  OK(cuMemFreeAsync(memory[0], NULL));
  OK(cuMemFree_v2(memory[1]));
  CHECK(cuMemFreeAsync(memory[1], NULL) == 1);
  for (int i = 2; i < 5; ++i) OK(cuMemFreeAsync(memory[i], NULL));
  OK(cuCtxSynchronize());
  OK(cuMemPoolGetAttribute(pool, 7, &used));
  CHECK(used == 0);
  OK(cuMemPoolDestroy(pool));
  OK(cuMemGetInfo_v2(&available, &total));
  CHECK(available == 192 * MIB);
}

static void two_devices(void) {
  CUcontext first, second;
  CUdeviceptr from, to;
  uint32_t value = 77;
  int can = 0, link = 0;
  open_device(&first);
  OK(cuMemAlloc_v2(&from, 64));
  OK(cuMemcpyHtoD_v2(from, &value, 4));
  OK(cuCtxCreate_v2(&second, 0, 1));
  OK(cuMemAlloc_v2(&to, 64));
  OK(cuDeviceCanAccessPeer(&can, 1, 0));
  OK(cuDeviceGetP2PAttribute(&link, 2, 0, 1));
  CHECK(can == 1 && link == 1);
  CHECK(cuDeviceGetP2PAttribute(&link, 9, 0, 1) == 1);
  CHECK(cuCtxDisablePeerAccess(first) == 705);
  CHECK(cuCtxEnablePeerAccess(first, 1) == 1);
  OK(cuCtxEnablePeerAccess(first, 0));
  CHECK(cuCtxEnablePeerAccess(first, 0) == 704);
  CHECK(cuMemcpyPeer(to, second, from, NULL, 64) == 201);
  OK(cuMemcpyPeer(to, second, from, first, 64));
  value = 0;
  OK(cuMemcpyDtoH_v2(&value, to, 4));
  CHECK(value == 77);
  OK(cuCtxDisablePeerAccess(first));
  int ordinal = -1;
  OK(cuPointerGetAttribute(&ordinal, 9, to));
  CHECK(ordinal == 1);
}

static const struct {
  const char *name;
  void (*run)(void);
} kCases[] = {
    {"holds", holds},   {"access_rights", access_rights}, {"foreign_handles", foreign_handles},
    {"offers", offers}, {"accepts", accepts},             {"accepts_too_late", accepts_too_late},
    {"touches_closed", touches_closed}, {"touches_unmapped_in_a_graph", touches_unmapped_in_a_graph}, {"costs", costs},
    {"event_in_two_streams", event_in_two_streams}, {"pools_make_room", pools_make_room}, {"managed_pool", managed_pool}, {"two_devices", two_devices},
};

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    if (argc != 2 || strcmp(argv[1], kCases[i].name) != 0) continue;
    kCases[i].run();
    return 0;
  }
  fprintf(stderr, "usage: emu_memory CASE\n");
  return 2;
}
