#include "gate/prefetch.h"
#include "base/memory_abi.h"
#include "base/symbols.h"
#include "streams/context_end.h"

enum { CU_STREAM_NON_BLOCKING = 1 };

bool fikit_prefetch_context(CUcontext *context, CUdevice *device) {
  return !fikit_context_ends() && REAL(cuCtxGetCurrent)(context) == CUDA_SUCCESS && *context &&
         REAL(cuCtxGetDevice)(device) == CUDA_SUCCESS;
}

CUstream fikit_prefetch_stream(void) {
  CUstream stream = NULL;
  return REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS ? stream : NULL;
}

/* In the form of CUDA 12.2 and newer, which CUDA 13 has alone, or in that of before. */
CUresult fikit_prefetch(const struct fikit_piece *piece, CUdevice device, CUstream stream) {
  if (!HAS(cuMemPrefetchAsync_v2))
    return REAL(cuMemPrefetchAsync)(piece->at, piece->bytes, piece->in ? device : CU_DEVICE_CPU, stream);
  const CUmemLocation gpu = {CU_MEM_LOCATION_TYPE_DEVICE, device}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
  return REAL(cuMemPrefetchAsync_v2)(piece->at, piece->bytes, piece->in ? gpu : host, 0, stream);
}
