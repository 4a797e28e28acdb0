/* Prototypes of the driver functions that the emulator's test programs call, and their two tools. Linked by -l:libcuda.so.1. */
#ifndef EMU_API_H
#define EMU_API_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext, *CUmodule, *CUlibrary, *CUfunction, *CUkernel, *CUstream, *CUevent, *CUgraph, *CUgraphNode, *CUgraphExec, *CUmemoryPool;

typedef struct {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
  CUstream stream;
  void *attributes;
  unsigned attribute_count;
} CUlaunchConfig;

typedef struct {
  CUfunction function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
  void **parameters, **extra;
} KernelNode;

CUresult cuInit(unsigned), cuDeviceGet(CUdevice *, int), cuDeviceGetCount(int *), cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceGetAttribute(int *, int, CUdevice), cuDeviceTotalMem_v2(size_t *, CUdevice), cuDeviceGetUuid_v2(void *, CUdevice);
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice), cuCtxDestroy_v2(CUcontext), cuCtxGetCurrent(CUcontext *);
CUresult cuCtxPushCurrent_v2(CUcontext), cuCtxPopCurrent_v2(CUcontext *), cuCtxSetCurrent(CUcontext), cuCtxSynchronize(void);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice), cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t), cuMemFree_v2(CUdeviceptr), cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemHostAlloc(void **, size_t, unsigned), cuMemFreeHost(void *), cuMemHostRegister_v2(void *, size_t, unsigned);
CUresult cuMemHostUnregister(void *), cuMemAllocAsync(CUdeviceptr *, size_t, CUstream), cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr), cuPointerGetAttribute(void *, int, CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream), cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t), cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
CUresult cuModuleLoadData(CUmodule *, const void *), cuModuleUnload(CUmodule), cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, CUmodule, const char *), cuFuncGetName(const char **, CUfunction);
CUresult cuLibraryLoadData(CUlibrary *, const void *, int *, void **, unsigned, int *, void **, unsigned);
CUresult cuLibraryGetKernel(CUkernel *, CUlibrary, const char *), cuLibraryUnload(CUlibrary), cuKernelGetFunction(CUfunction *, CUkernel);
CUresult cuKernelGetName(const char **, CUkernel);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchKernelEx(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuStreamCreate(CUstream *, unsigned), cuStreamDestroy_v2(CUstream), cuStreamSynchronize(CUstream), cuStreamQuery(CUstream);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned), cuLaunchHostFunc(CUstream, void (*)(void *), void *);
CUresult cuStreamBeginCapture_v2(CUstream, int), cuStreamEndCapture(CUstream, CUgraph *), cuStreamIsCapturing(CUstream, int *);
CUresult cuEventCreate(CUevent *, unsigned), cuEventRecord(CUevent, CUstream), cuEventQuery(CUevent), cuEventSynchronize(CUevent);
CUresult cuEventElapsedTime(float *, CUevent, CUevent), cuEventDestroy_v2(CUevent);
CUresult cuGraphCreate(CUgraph *, unsigned), cuGraphDestroy(CUgraph), cuGraphLaunch(CUgraphExec, CUstream), cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphAddKernelNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const KernelNode *);
CUresult cuGraphInstantiate_v2(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec, CUgraphNode, const KernelNode *), cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGetProcAddress(const char *, void **, int, uint64_t), cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
CUresult cuGetErrorName(CUresult, const char **), cuGetErrorString(CUresult, const char **), cuGetExportTable(const void **, const void *);
CUresult cuTexRefCreate(void), cuTexRefDestroy(void);

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

#define OK(call)                                                           \
  do {                                                                     \
    int result_ = (call);                                                  \
    if (result_ != 0) {                                                    \
      fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, result_); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

/* Real code, so that the same programs run on a real GPU; the emulator knows these kernels by name. */
static const char kPtx[] =
    "// a comment with .entry not_a_kernel(\n"
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .u32 one_word = 5;\n"
    ".global .align 8 .b8 table[40] = {1, 2};\n"
    ".const .align 16 .v4 .f32 vectors[3];\n"
    ".visible .entry fikit_spin(.param .u64 ns)\n{\n .reg .pred %p<2>;\n .reg .b64 %rd<5>;\n ld.param.u64 %rd1, [ns];\n"
    " mov.u64 %rd2, %globaltimer;\nAGAIN:\n mov.u64 %rd3, %globaltimer;\n sub.u64 %rd4, %rd3, %rd2;\n"
    " setp.lt.u64 %p1, %rd4, %rd1;\n @%p1 bra AGAIN;\n ret;\n}\n"
    ".visible .entry emu_increment(.param .u64 p)\n{\n .reg .b32 %r<3>;\n .reg .b64 %rd<3>;\n ld.param.u64 %rd1, [p];\n"
    " cvta.to.global.u64 %rd2, %rd1;\n ld.global.u32 %r1, [%rd2];\n add.u32 %r2, %r1, 1;\n st.global.u32 [%rd2], %r2;\n ret;\n}\n"
    ".visible .entry emu_check_order(.param .u64 p, .param .u32 expected)\n{\n .reg .pred %p<2>;\n .reg .b32 %r<5>;\n"
    " .reg .b64 %rd<3>;\n ld.param.u64 %rd1, [p];\n ld.param.u32 %r1, [expected];\n cvta.to.global.u64 %rd2, %rd1;\n"
    " ld.global.u32 %r2, [%rd2];\n add.u32 %r3, %r1, 1;\n setp.eq.u32 %p1, %r2, %r1;\n {\n"
    "  selp.b32 %r4, %r3, 0xdeadbeef, %p1;\n  st.global.u32 [%rd2], %r4;\n  ret;\n }\n}\n";

__attribute__((unused)) static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A context on device 0 and a module of kPtx in it. */
__attribute__((unused)) static CUmodule open_device(CUcontext *context) {
  CUdevice device;
  CUmodule module;
  OK(cuInit(0));
  OK(cuDeviceGet(&device, 0));
  OK(cuCtxCreate_v2(context, 0, device));
  OK(cuModuleLoadData(&module, kPtx));
  return module;
}

__attribute__((unused)) static CUfunction kernel(CUmodule module, const char *name) {
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

__attribute__((unused)) static void spin(CUfunction function, uint64_t ns, CUstream stream) {
  void *parameters[] = {&ns};
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

#endif
