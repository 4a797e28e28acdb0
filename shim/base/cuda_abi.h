/*
 * The part of the CUDA driver's binary interface that the shim touches: our own declarations, no NVIDIA header.
 * Handles are opaque; an unnamed int is an enum of the driver. Suffixes: _v2.. newer ABI, _ptsz/_ptds the
 * per-thread-default-stream flavour of the same call (interception notes, section 4).
 */
#ifndef FIKIT_SHIM_CUDA_ABI_H
#define FIKIT_SHIM_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uintptr_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_NOT_SUPPORTED = 801,
};

enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_STREAM_CAPTURE_STATUS_NONE = 0 };
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum { CU_MEMHOSTREGISTER_DEVICEMAP = 2 };
enum { CU_DEVICE_ATTRIBUTE_MPS_ENABLED = 133 }; /* drivers before CUDA 12.3 do not know it */
enum { CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122 }; /* of the _v2 calls, which all have the 32-bit ones */
enum { CU_GRAPH_NODE_TYPE_KERNEL = 0 };
enum {
  CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7
};
enum { CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2 };

/* Stream handles with a meaning of their own. NULL means one or the other, by the flavour of the call. */
#define CU_STREAM_LEGACY ((CUstream)(uintptr_t)1)
#define CU_STREAM_PER_THREAD ((CUstream)(uintptr_t)2)

typedef struct {
  unsigned char bytes[16];
} CUuuid;

typedef struct {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int cooperative;
    int programmatic; /* stream serialization allowed */
  } value;
} CUlaunchAttribute;

typedef struct {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
} CUlaunchConfig;

/* Layout of version 2 (CUDA 12.0). Version 1 ends before kern and is otherwise the same. */
typedef struct {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void **kernelParams;
  void **extra;
  CUkernel kern;
  CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3, CU_MEMORYTYPE_UNIFIED = 4 };
enum { CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2 };

typedef struct {
  size_t srcXInBytes, srcY;
  int srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  int dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

/* One launch of a cooperative launch on several devices. */
typedef struct {
  CUfunction function;
  unsigned gx, gy, gz, bx, by, bz, shared_bytes;
  CUstream stream;
  void **params;
} CUDA_LAUNCH_PARAMS;

/* The calls that are handled (entry_points.def), then the ones that the shim only makes. */
#define FIKIT_API __attribute__((visibility("default"))) CUresult

/* Launches. */
#define FIKIT_LAUNCH_KERNEL_ARGS \
  CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, \
      CUstream stream, void **params
FIKIT_API cuLaunchKernel(FIKIT_LAUNCH_KERNEL_ARGS, void **extra);
FIKIT_API cuLaunchKernel_ptsz(FIKIT_LAUNCH_KERNEL_ARGS, void **extra);
FIKIT_API cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra);
FIKIT_API cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra);
FIKIT_API cuLaunchCooperativeKernel(FIKIT_LAUNCH_KERNEL_ARGS);
FIKIT_API cuLaunchCooperativeKernel_ptsz(FIKIT_LAUNCH_KERNEL_ARGS);
FIKIT_API cuLaunch(CUfunction f);
FIKIT_API cuLaunchGrid(CUfunction f, int width, int height);
FIKIT_API cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream);
FIKIT_API cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned count, unsigned flags);
FIKIT_API cuFuncSetBlockShape(CUfunction f, int x, int y, int z);
FIKIT_API cuFuncSetSharedSize(CUfunction f, unsigned bytes);
FIKIT_API cuGraphLaunch(CUgraphExec exec, CUstream stream);
FIKIT_API cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream);

/* Host synchronisation and queries. */
FIKIT_API cuCtxSynchronize(void);
FIKIT_API cuCtxSynchronize_v2(CUcontext ctx);
FIKIT_API cuStreamSynchronize(CUstream stream);
FIKIT_API cuStreamSynchronize_ptsz(CUstream stream);
FIKIT_API cuStreamQuery(CUstream stream);
FIKIT_API cuStreamQuery_ptsz(CUstream stream);
FIKIT_API cuEventSynchronize(CUevent event);
FIKIT_API cuEventQuery(CUevent event);
FIKIT_API cuEventRecord(CUevent event, CUstream stream);
FIKIT_API cuEventRecord_ptsz(CUevent event, CUstream stream);
FIKIT_API cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags);
FIKIT_API cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags);
FIKIT_API cuEventDestroy(CUevent event);
FIKIT_API cuEventDestroy_v2(CUevent event);
FIKIT_API cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
FIKIT_API cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t bytes);

/* Copies. */
FIKIT_API cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
FIKIT_API cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes);
FIKIT_API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
FIKIT_API cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
FIKIT_API cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes);
FIKIT_API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
FIKIT_API cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy);
FIKIT_API cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy);
FIKIT_API cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy);
FIKIT_API cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy);
FIKIT_API cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);
FIKIT_API cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream);

/* Fills, and copies within the device. */
FIKIT_API cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
FIKIT_API cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height);
FIKIT_API cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count);
FIKIT_API cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height);
FIKIT_API cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream);
FIKIT_API cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream);
FIKIT_API cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream);
FIKIT_API cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream);
FIKIT_API cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
FIKIT_API cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height);
FIKIT_API cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count);
FIKIT_API cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height);
FIKIT_API cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream);
FIKIT_API cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream);
FIKIT_API cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count, CUstream stream);
FIKIT_API cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream);
FIKIT_API cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count);
FIKIT_API cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height);
FIKIT_API cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned value, size_t count);
FIKIT_API cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height);
FIKIT_API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
FIKIT_API cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream);
FIKIT_API cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
FIKIT_API cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream);
FIKIT_API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
FIKIT_API cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes);
FIKIT_API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
FIKIT_API cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

FIKIT_API cuStreamDestroy(CUstream stream);
FIKIT_API cuStreamDestroy_v2(CUstream stream);

/* Capture. */
FIKIT_API cuStreamBeginCapture(CUstream stream);
FIKIT_API cuStreamBeginCapture_ptsz(CUstream stream);
FIKIT_API cuStreamBeginCapture_v2(CUstream stream, int mode);
FIKIT_API cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode);
#define FIKIT_CAPTURE_TO_GRAPH_ARGS \
  CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const void *data, size_t count, int mode
FIKIT_API cuStreamBeginCaptureToGraph(FIKIT_CAPTURE_TO_GRAPH_ARGS);
FIKIT_API cuStreamBeginCaptureToGraph_ptsz(FIKIT_CAPTURE_TO_GRAPH_ARGS);
FIKIT_API cuStreamBeginRecaptureToGraph(CUstream stream, int mode, CUgraph graph, void *callback, void *data);
FIKIT_API cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, int mode, CUgraph graph, void *callback, void *data);
FIKIT_API cuStreamBeginCaptureToCig(CUstream stream, void *params);
FIKIT_API cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params);
FIKIT_API cuStreamEndCaptureToCig(CUstream stream);
FIKIT_API cuStreamEndCaptureToCig_ptsz(CUstream stream);
FIKIT_API cuStreamEndCapture(CUstream stream, CUgraph *graph);
FIKIT_API cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph);

/* Contexts. */
FIKIT_API cuCtxCreate(CUcontext *ctx, unsigned flags, CUdevice device);
FIKIT_API cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device);
FIKIT_API cuCtxCreate_v3(CUcontext *ctx, void *affinity, int count, unsigned flags, CUdevice device);
FIKIT_API cuCtxCreate_v4(CUcontext *ctx, void *params, unsigned flags, CUdevice device);
FIKIT_API cuCtxDestroy(CUcontext ctx);
FIKIT_API cuCtxDestroy_v2(CUcontext ctx);
FIKIT_API cuCtxAttach(CUcontext *ctx, unsigned flags);
FIKIT_API cuCtxDetach(CUcontext ctx);
FIKIT_API cuCtxSetCurrent(CUcontext ctx);
FIKIT_API cuCtxPushCurrent(CUcontext ctx);
FIKIT_API cuCtxPushCurrent_v2(CUcontext ctx);
FIKIT_API cuCtxPopCurrent(CUcontext *ctx);
FIKIT_API cuCtxPopCurrent_v2(CUcontext *ctx);
FIKIT_API cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device);
FIKIT_API cuDevicePrimaryCtxRelease(CUdevice device);
FIKIT_API cuDevicePrimaryCtxRelease_v2(CUdevice device);
FIKIT_API cuDevicePrimaryCtxReset(CUdevice device);
FIKIT_API cuDevicePrimaryCtxReset_v2(CUdevice device);
FIKIT_API cuGreenCtxDestroy(void *green);
FIKIT_API cuCtxFromGreenCtx(CUcontext *ctx, void *green);

/* Kernel names. */
FIKIT_API cuModuleLoad(CUmodule *module, const char *path);
FIKIT_API cuModuleLoadData(CUmodule *module, const void *image);
FIKIT_API cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values);
FIKIT_API cuModuleLoadFatBinary(CUmodule *module, const void *image);
FIKIT_API cuModuleUnload(CUmodule module);
FIKIT_API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
FIKIT_API cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module);
#define FIKIT_LIBRARY_LOAD_ARGS \
  int *jit_options, void **jit_values, unsigned jit_count, int *options, void **values, unsigned count
FIKIT_API cuLibraryLoadData(CUlibrary *library, const void *code, FIKIT_LIBRARY_LOAD_ARGS);
FIKIT_API cuLibraryLoadFromFile(CUlibrary *library, const char *path, FIKIT_LIBRARY_LOAD_ARGS);
FIKIT_API cuLibraryUnload(CUlibrary library);
FIKIT_API cuLibraryGetModule(CUmodule *module, CUlibrary library);
FIKIT_API cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name);
FIKIT_API cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library);
FIKIT_API cuKernelGetFunction(CUfunction *function, CUkernel kernel);
FIKIT_API cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t bytes);
FIKIT_API cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *bad, char *log, size_t bytes);
FIKIT_API cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
FIKIT_API cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params);
FIKIT_API cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params);
FIKIT_API cuGraphExecDestroy(CUgraphExec exec);

/* Look-up. */
FIKIT_API cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
FIKIT_API cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

/* Made by the shim, passed on untouched when the program makes them. */
FIKIT_API cuInit(unsigned flags);
FIKIT_API cuDriverGetVersion(int *version);
FIKIT_API cuCtxGetCurrent(CUcontext *ctx);
FIKIT_API cuCtxRecordEvent(CUcontext ctx, CUevent event);
FIKIT_API cuCtxGetDevice(CUdevice *device);
FIKIT_API cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);
FIKIT_API cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
FIKIT_API cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
FIKIT_API cuDeviceGetName(char *name, int bytes, CUdevice device);
FIKIT_API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
FIKIT_API cuStreamCreate(CUstream *stream, unsigned flags);
FIKIT_API cuStreamGetCtx(CUstream stream, CUcontext *ctx);
FIKIT_API cuStreamGetCtx_v2(CUstream stream, CUcontext *regular, void **green);
FIKIT_API cuStreamIsCapturing(CUstream stream, int *status);
FIKIT_API cuStreamIsCapturing_ptsz(CUstream stream, int *status);
FIKIT_API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
FIKIT_API cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
FIKIT_API cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
FIKIT_API cuThreadExchangeStreamCaptureMode(int *mode);
FIKIT_API cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
FIKIT_API cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer);
FIKIT_API cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags);
FIKIT_API cuMemFreeHost(void *pointer);
FIKIT_API cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags);
FIKIT_API cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned flags);
FIKIT_API cuEventCreate(CUevent *event, unsigned flags);
FIKIT_API cuEventElapsedTime(float *ms, CUevent start, CUevent end);
FIKIT_API cuFuncGetName(const char **name, CUfunction function);
FIKIT_API cuFuncGetAttribute(int *value, int attribute, CUfunction function);
FIKIT_API cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device);
FIKIT_API cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes);
FIKIT_API cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes);
FIKIT_API cuKernelGetName(const char **name, CUkernel kernel);
FIKIT_API cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
FIKIT_API cuGraphNodeGetType(CUgraphNode node, int *type);
FIKIT_API cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params);
FIKIT_API cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params);

#endif
