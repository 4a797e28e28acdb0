/* Kernels and graphs pass the gate; the launch itself is the driver's own call in the caller's own thread, before or after which we
 * only write our page. */
#include "hooks/launch.h"
#include "base/symbols.h"

#define SHAPE(of_kind) {{gx, gy, gz}, {bx, by, bz}, shared_bytes, of_kind, false}

CUresult cuLaunchKernel(FIKIT_LAUNCH_KERNEL_ARGS, void **extra) {
  struct fikit_shape shape = SHAPE(FIKIT_KIND_KERNEL);
  struct fikit_launch launch = fikit_launch_begin(fikit_legacy(stream), (uintptr_t)f, &shape);
  const CUresult result = REAL(cuLaunchKernel)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
  return fikit_launch_end_with(&launch, result, f, params, extra);
}

CUresult cuLaunchKernel_ptsz(FIKIT_LAUNCH_KERNEL_ARGS, void **extra) {
  struct fikit_shape shape = SHAPE(FIKIT_KIND_KERNEL);
  struct fikit_launch launch = fikit_launch_begin(fikit_per_thread(stream), (uintptr_t)f, &shape);
  const CUresult result = REAL(cuLaunchKernel_ptsz)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params, extra);
  return fikit_launch_end_with(&launch, result, f, params, extra);
}

CUresult cuLaunchCooperativeKernel(FIKIT_LAUNCH_KERNEL_ARGS) {
  struct fikit_shape shape = SHAPE(FIKIT_KIND_COOPERATIVE);
  struct fikit_launch launch = fikit_launch_begin(fikit_legacy(stream), (uintptr_t)f, &shape);
  const CUresult result = REAL(cuLaunchCooperativeKernel)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params);
  return fikit_launch_end_with(&launch, result, f, params, NULL);
}

CUresult cuLaunchCooperativeKernel_ptsz(FIKIT_LAUNCH_KERNEL_ARGS) {
  struct fikit_shape shape = SHAPE(FIKIT_KIND_COOPERATIVE);
  struct fikit_launch launch = fikit_launch_begin(fikit_per_thread(stream), (uintptr_t)f, &shape);
  const CUresult result = REAL(cuLaunchCooperativeKernel_ptsz)(f, gx, gy, gz, bx, by, bz, shared_bytes, stream, params);
  return fikit_launch_end_with(&launch, result, f, params, NULL);
}

/* On one device it is a cooperative launch like any other. On several, each with a gate of its own, holding one part while another runs would be a deadlock. */
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches, unsigned count, unsigned flags) {
  if (!launches || count != 1)
    return REAL(cuLaunchCooperativeKernelMultiDevice)(launches, count, flags);
  const CUDA_LAUNCH_PARAMS *only = launches;
  struct fikit_shape shape = {{only->gx, only->gy, only->gz}, {only->bx, only->by, only->bz}, only->shared_bytes, FIKIT_KIND_COOPERATIVE, false};
  struct fikit_launch launch = fikit_launch_begin(fikit_legacy(only->stream), (uintptr_t)only->function, &shape);
  return fikit_launch_end_with(&launch, REAL(cuLaunchCooperativeKernelMultiDevice)(launches, count, flags), only->function, only->params, NULL);
}

/* The attributes are read, never copied or edited. */
static struct fikit_shape shape_of(const CUlaunchConfig *config) {
  struct fikit_shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                              {config->blockDimX, config->blockDimY, config->blockDimZ},
                              config->sharedMemBytes,
                              FIKIT_KIND_KERNEL,
                              false};
  for (unsigned i = 0; config->attrs && i < config->numAttrs; i++) {
    const CUlaunchAttribute *attribute = &config->attrs[i];
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute->value.cooperative)
      shape.kind = FIKIT_KIND_COOPERATIVE;
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
        (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && attribute->value.programmatic))
      shape.dependent = true;
  }
  return shape;
}

static void note_dependent(CUstream stream, const struct fikit_shape *shape) {
  struct fikit_device *device = shape->dependent ? fikit_stream_of(stream)->device : NULL;
  if (device)
    fikit_dependent_comes(device);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
  if (!config)
    return REAL(cuLaunchKernelEx)(config, f, params, extra);
  struct fikit_shape shape = shape_of(config);
  note_dependent(fikit_legacy(config->hStream), &shape);
  struct fikit_launch launch = fikit_launch_begin(fikit_legacy(config->hStream), (uintptr_t)f, &shape);
  const CUresult result = REAL(cuLaunchKernelEx)(config, f, params, extra);
  return fikit_launch_end_with(&launch, result, f, params, extra);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) {
  if (!config)
    return REAL(cuLaunchKernelEx_ptsz)(config, f, params, extra);
  struct fikit_shape shape = shape_of(config);
  note_dependent(fikit_per_thread(config->hStream), &shape);
  struct fikit_launch launch = fikit_launch_begin(fikit_per_thread(config->hStream), (uintptr_t)f, &shape);
  const CUresult result = REAL(cuLaunchKernelEx_ptsz)(config, f, params, extra);
  return fikit_launch_end_with(&launch, result, f, params, extra);
}

/* One unit, however many kernels it holds. */
static const struct fikit_shape graph_shape = {{1, 1, 1}, {1, 1, 1}, 0, FIKIT_KIND_GRAPH, false};

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  struct fikit_launch launch = fikit_launch_begin(fikit_legacy(stream), (uintptr_t)exec, &graph_shape);
  return fikit_launch_end_graph(&launch, REAL(cuGraphLaunch)(exec, stream), exec);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  struct fikit_launch launch = fikit_launch_begin(fikit_per_thread(stream), (uintptr_t)exec, &graph_shape);
  return fikit_launch_end_graph(&launch, REAL(cuGraphLaunch_ptsz)(exec, stream), exec);
}

/* The trio of CUDA 3: block shape and shared memory are set on the function before. PyCUDA still launches so. */
static HANDLE_MAP(block_shapes); /* x, y, z in 16 bits each (at most 1024) */
static HANDLE_MAP(shared_sizes);

CUresult cuFuncSetBlockShape(CUfunction f, int x, int y, int z) {
  CUresult result = REAL(cuFuncSetBlockShape)(f, x, y, z);
  if (result == CUDA_SUCCESS)
    handle_map_put(&block_shapes, (uintptr_t)f,
                   (uintptr_t)(x & 0xffff) | (uintptr_t)(y & 0xffff) << 16 | (uintptr_t)(z & 0xffff) << 32, 0);
  return result;
}

CUresult cuFuncSetSharedSize(CUfunction f, unsigned bytes) {
  CUresult result = REAL(cuFuncSetSharedSize)(f, bytes);
  if (result == CUDA_SUCCESS)
    handle_map_put(&shared_sizes, (uintptr_t)f, bytes, 0);
  return result;
}

static struct fikit_launch begin_legacy(CUfunction f, int width, int height, CUstream stream) {
  uintptr_t block = handle_map_get(&block_shapes, (uintptr_t)f);
  struct fikit_shape shape = {{(unsigned)width, (unsigned)height, 1},
                              {block & 0xffff, block >> 16 & 0xffff, block >> 32 & 0xffff},
                              (unsigned)handle_map_get(&shared_sizes, (uintptr_t)f),
                              FIKIT_KIND_KERNEL,
                              false};
  return fikit_launch_begin(stream, (uintptr_t)f, &shape);
}

CUresult cuLaunch(CUfunction f) {
  struct fikit_launch launch = begin_legacy(f, 1, 1, CU_STREAM_LEGACY);
  return fikit_launch_end(&launch, REAL(cuLaunch)(f));
}

CUresult cuLaunchGrid(CUfunction f, int width, int height) {
  struct fikit_launch launch = begin_legacy(f, width, height, CU_STREAM_LEGACY);
  return fikit_launch_end(&launch, REAL(cuLaunchGrid)(f, width, height));
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  struct fikit_launch launch = begin_legacy(f, width, height, fikit_legacy(stream));
  return fikit_launch_end(&launch, REAL(cuLaunchGridAsync)(f, width, height, stream));
}
