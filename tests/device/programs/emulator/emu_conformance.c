/* What the emulated driver does beyond what every driver must (that is in tests/conformance). Usage: emu_conformance CASE. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu_api.h"

static void devices(void) {
  char name[100];
  int value, count;
  size_t bytes;
  unsigned char uuid[16], none[16] = {0};
  CHECK(cuDeviceGetCount(&count) == 3);
  OK(cuInit(0));
  OK(cuDeviceGetName(name, sizeof name, 0));
  CHECK(strstr(name, "Emulated GPU") != NULL);
  OK(cuDeviceGetAttribute(&value, 75, 0));
  CHECK(value == 9);
  OK(cuDeviceTotalMem_v2(&bytes, 0));
  CHECK(bytes == (size_t)16 << 30);
  OK(cuDeviceGetUuid_v2(uuid, 0));
  CHECK(memcmp(uuid, none, sizeof uuid) != 0);
  CHECK(cuDeviceGetName(name, sizeof name, 1) == 101);
}

static void modules(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction function, of_kernel;
  CUlibrary library;
  CUkernel handle;
  CUdeviceptr address;
  size_t bytes;
  const char *name;
  OK(cuModuleGetFunction(&function, module, "emu_increment"));
  OK(cuFuncGetName(&name, function));
  CHECK(strcmp(name, "emu_increment") == 0);
  CHECK(cuModuleGetFunction(&function, module, "not_a_kernel") == 500);
  OK(cuModuleGetGlobal_v2(&address, &bytes, module, "one_word"));
  CHECK(bytes == 4);
  OK(cuModuleGetGlobal_v2(&address, &bytes, module, "table"));
  CHECK(bytes == 40);
  OK(cuModuleGetGlobal_v2(&address, &bytes, module, "vectors"));
  CHECK(bytes == 48);
  CHECK(cuModuleGetGlobal_v2(&address, &bytes, module, "absent") == 500);
  CHECK(cuModuleLoadData(&module, "no image at all") == 200);
  OK(cuLibraryLoadData(&library, kPtx, NULL, NULL, 0, NULL, NULL, 0));
  OK(cuLibraryGetKernel(&handle, library, "fikit_spin"));
  CHECK(cuLibraryGetKernel(&handle, library, "nothing") == 500);
  OK(cuLibraryGetKernel(&handle, library, "emu_increment"));
  OK(cuKernelGetName(&name, handle));
  CHECK(strcmp(name, "emu_increment") == 0);
  OK(cuKernelGetFunction(&of_kernel, handle));
  CHECK(of_kernel != handle);
  OK(cuLibraryUnload(library));
}

typedef struct {
  int id, padding;
  unsigned x, y, z, rest[13];
} LaunchAttribute;

CUresult cuOccupancyMaxPotentialClusterSize(int *, CUfunction, const CUlaunchConfig *), cuFuncSetAttribute(CUfunction, int, int);
CUresult cuOccupancyMaxActiveClusters(int *, CUfunction, const CUlaunchConfig *);

static void clusters(void) {
  CUcontext context;
  CUfunction f = kernel(open_device(&context), "fikit_spin");
  LaunchAttribute cluster = {4, 0, 2, 2, 1, {0}};
  CUlaunchConfig config = {64, 1, 1, 1024, 1, 1, 0, NULL, NULL, 0};
  int most = 0, active = 0, processors;
  OK(cuDeviceGetAttribute(&processors, 16, 0));
  OK(cuOccupancyMaxPotentialClusterSize(&most, f, &config));
  CHECK(most == 8);
  CHECK(cuOccupancyMaxActiveClusters(&active, f, &config) == 1); /* neither the launch nor the function says a size */
  config.attributes = &cluster;
  config.attribute_count = 1;
  OK(cuOccupancyMaxActiveClusters(&active, f, &config));
  CHECK(active == processors * 2 / 4);
  cluster.x = 8; /* 16 blocks: more than portable */
  CHECK(cuOccupancyMaxActiveClusters(&active, f, &config) == 1);
  OK(cuFuncSetAttribute(f, 14, 1));
  OK(cuOccupancyMaxPotentialClusterSize(&most, f, &config));
  CHECK(most == 16);
  OK(cuOccupancyMaxActiveClusters(&active, f, &config));
  OK(cuFuncSetAttribute(f, 11, 2)); /* the function requires 2 x 1 x 1 */
  CHECK(cuOccupancyMaxActiveClusters(&active, f, &config) == 1);
  config.attribute_count = 0;
  OK(cuOccupancyMaxActiveClusters(&active, f, &config));
  CHECK(active == processors);
}

static void events(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction f = kernel(module, "fikit_spin");
  CUevent begin, end, untimed;
  CUstream a, b;
  float ms;
  OK(cuStreamCreate(&a, 1));
  OK(cuStreamCreate(&b, 1));
  OK(cuEventCreate(&begin, 0));
  OK(cuEventCreate(&end, 0));
  OK(cuEventCreate(&untimed, 2));
  OK(cuEventQuery(end));
  CHECK(cuEventElapsedTime(&ms, begin, end) == 400);
  OK(cuEventRecord(begin, a));
  spin(f, 30000000, a);
  OK(cuEventRecord(untimed, a));
  OK(cuStreamWaitEvent(b, untimed, 0));
  spin(f, 10000000, b);
  OK(cuEventRecord(end, b));
  CHECK(cuEventQuery(end) == 600);
  CHECK(cuEventElapsedTime(&ms, begin, end) == 600);
  OK(cuEventSynchronize(end));
  OK(cuEventElapsedTime(&ms, begin, end));
  CHECK(ms > 39.99 && ms < 40.5); /* begin waits for nothing, b's kernel for a's */
  CHECK(cuEventElapsedTime(&ms, begin, untimed) == 400);
  OK(cuStreamDestroy_v2(a));
  OK(cuEventDestroy_v2(end));
  CHECK(cuEventQuery(end) == 400);
}

static int g_called;
static CUresult g_inside;
static void host_function(void *data) {
  g_inside = cuStreamQuery(NULL);
  g_called = *(int *)data;
}

static void host_functions(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUstream stream;
  int answer = 42;
  OK(cuStreamCreate(&stream, 0));
  spin(kernel(module, "fikit_spin"), 20000000, stream);
  OK(cuLaunchHostFunc(stream, host_function, &answer));
  CHECK(g_called == 0);
  OK(cuStreamSynchronize(stream));
  CHECK(g_called == 42 && g_inside == 800);
}

static void memory(void) {
  CUcontext context;
  open_device(&context);
  CUdeviceptr pointer, base;
  size_t before, after, total, bytes;
  unsigned type;
  static char page[8192];
  OK(cuMemGetInfo_v2(&before, &total));
  OK(cuMemAlloc_v2(&pointer, 1 << 20));
  OK(cuMemGetInfo_v2(&after, &total));
  CHECK(before - after == 1 << 20);
  OK(cuMemGetAddressRange_v2(&base, &bytes, pointer + 100));
  CHECK(base == pointer && bytes == 1 << 20);
  OK(cuPointerGetAttribute(&type, 2, pointer + 5));
  CHECK(type == 2);
  CHECK(cuPointerGetAttribute(&type, 2, (CUdeviceptr)page) == 1);
  CHECK(cuMemFree_v2(pointer + 1) == 1);
  OK(cuMemFree_v2(pointer));
  CHECK(cuMemFree_v2(pointer) == 1);
  CHECK(cuMemAlloc_v2(&pointer, 0) == 1);
  CHECK(cuMemAlloc_v2(&pointer, total + 1) == 2);
  OK(cuMemHostRegister_v2(page, sizeof page, 0));
  CHECK(cuMemHostRegister_v2(page + 100, 100, 0) == 712);
  OK(cuPointerGetAttribute(&type, 2, (CUdeviceptr)page));
  CHECK(type == 1);
  OK(cuMemHostUnregister(page));
  CHECK(cuMemHostUnregister(page) == 713);
  OK(cuMemAllocAsync(&pointer, 4096, NULL));
  OK(cuMemFreeAsync(pointer, NULL));
  OK(cuCtxSynchronize());
  OK(cuMemGetInfo_v2(&after, &total));
  CHECK(after == before);
}

/* Handles of the wrong kind and of what is gone are an error here, a real driver promises nothing. */
static void wrong_handles(void) {
  CUcontext context, gone;
  CUdevice device = 0;
  CUmodule module = open_device(&context);
  CUdeviceptr counter;
  OK(cuCtxCreate_v2(&gone, 0, device));
  OK(cuCtxDestroy_v2(gone));
  CHECK(cuCtxSetCurrent(gone) == 201);
  OK(cuMemAlloc_v2(&counter, 4));
  void *parameters[] = {&counter};
  CHECK(cuLaunchKernel(module, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL) == 400);
}

static void proc_address(void) {
  void *v1, *v2, *found;
  int status;
  OK(cuGetProcAddress_v2("cuGetProcAddress", &v1, 11030, 0, &status));
  OK(cuGetProcAddress_v2("cuGetProcAddress", &v2, 12000, 0, &status));
  CHECK(v1 == (void *)cuGetProcAddress && v2 == (void *)cuGetProcAddress_v2 && status == 0);
  OK(cuGetProcAddress_v2("cuLaunchKernel", &found, 13000, 0, &status));
  CHECK(found == (void *)cuLaunchKernel);
  OK(cuGetProcAddress_v2("cuLaunchKernel", &found, 13000, 2, &status));
  CHECK(found == (void *)cuLaunchKernel_ptsz);
  OK(cuGetProcAddress_v2("cuCtxCreate", &found, 3020, 2, &status));
  CHECK(found == (void *)cuCtxCreate_v2);
  OK(cuGetProcAddress("cuCtxSynchronize", &found, 12080, 0));
  CHECK(found == (void *)cuCtxSynchronize);
  CHECK(cuGetProcAddress_v2("cuLaunchKernelEx", &found, 11000, 0, &status) == 500 && status == 2 && found == NULL);
  CHECK(cuGetProcAddress_v2("cuNoSuchThing", &found, 13000, 0, &status) == 500 && status == 1);
  CHECK(cuGetProcAddress_v2("", &found, 0, 0, &status) == 500 && status == 1);
}

static void unsupported(void) {
  const void *table = &table;
  const char *text;
  OK(cuInit(0));
  CHECK(cuTexRefCreate() == 801 && cuTexRefCreate() == 801 && cuTexRefDestroy() == 801);
  CHECK(cuGetExportTable(&table, "0123456789abcdef") == 500 && table == NULL);
  OK(cuGetErrorName(801, &text));
  CHECK(strcmp(text, "CUDA_ERROR_NOT_SUPPORTED") == 0);
  OK(cuGetErrorString(2, &text));
  CHECK(strcmp(text, "out of memory") == 0);
  CHECK(cuGetErrorName(12345, &text) == 1);
}

static CUfunction g_increment;
static CUdeviceptr g_counters;
static CUcontext g_context;
static void *thread(void *which) {
  CUdeviceptr counter = g_counters + 4 * (uintptr_t)which;
  void *parameters[] = {&counter};
  OK(cuCtxSetCurrent(g_context));
  for (int i = 0; i < 500; ++i) OK(cuLaunchKernel_ptsz(g_increment, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
  OK(cuStreamSynchronize((CUstream)2));
  return (void *)(uintptr_t) * (volatile uint32_t *)counter;
}

/* More threads than a process could ever have streams for, if they were not given back. */
static void threads(void) {
  CUmodule module = open_device(&g_context);
  g_increment = kernel(module, "emu_increment");
  OK(cuMemAlloc_v2(&g_counters, 4 * 4));
  for (int round = 0; round < 150; ++round) {
    pthread_t ids[4];
    OK(cuMemsetD8_v2(g_counters, 0, 16));
    for (uintptr_t i = 0; i < 4; ++i) CHECK(pthread_create(&ids[i], NULL, thread, (void *)i) == 0);
    for (int i = 0; i < 4; ++i) {
      void *value;
      CHECK(pthread_join(ids[i], &value) == 0);
      CHECK((uintptr_t)value == 500);
    }
  }
}

static void forked_child(void) {
  CUcontext context;
  int status;
  CUmodule module = open_device(&context);
  const pid_t child = fork();
  if (child == 0) _exit(cuCtxSynchronize() == 3 && cuInit(0) == 3 ? 0 : 1);
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  spin(kernel(module, "fikit_spin"), 1000, NULL);
  OK(cuCtxSynchronize());
}

#define CASE(name) {#name, name}
static const struct {
  const char *name;
  void (*run)(void);
} kCases[] = {CASE(devices), CASE(modules), CASE(events), CASE(host_functions), CASE(memory), CASE(wrong_handles), CASE(clusters),
              CASE(proc_address), CASE(unsupported), CASE(threads), CASE(forked_child)};

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    if (argc == 1) puts(kCases[i].name);
    if (argc == 2 && strcmp(argv[1], kCases[i].name) == 0) {
      kCases[i].run();
      return 0;
    }
  }
  return argc == 1 ? 0 : 2;
}
