/* Copies within the device, 8 ms each on the device of measure.py: `copies SECONDS FORM`. */
#include "attack.h"

enum { DEVICE_MEMORY = 2 }; /* CU_MEMORYTYPE_DEVICE */
enum { WIDTH = 1000, HEIGHT = 4400, BYTES = WIDTH * HEIGHT };

CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream), cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);
CUresult cuMemcpy2DAsync_v2(const void *, CUstream), cuMemcpy3DAsync_v2(const void *, CUstream), cuMemcpy3DPeerAsync(const void *, CUstream);

static CUdeviceptr from, to;
static CUcontext own;

static void linear(void) { OK(cuMemcpyAsync(to, from, BYTES, NULL)); }
static void gated(void) { OK(cuMemcpyDtoDAsync_v2(to, from, BYTES, NULL)); }
static void peer(void) { OK(cuMemcpyPeerAsync(to, own, from, own, BYTES, NULL)); }

/* CUDA_MEMCPY2D: x, y, type, host, device, array, pitch of each side, width, height. */
static void rectangle(void) {
  const uint64_t copy[16] = {[2] = DEVICE_MEMORY, [4] = from, [6] = WIDTH, [9] = DEVICE_MEMORY, [11] = to, [13] = WIDTH, [14] = WIDTH, [15] = HEIGHT};
  OK(cuMemcpy2DAsync_v2(copy, NULL));
}

/* CUDA_MEMCPY3D and its PEER: x, y, z, level, type, host, device, array, context, pitch, height of each side, width, height, depth. */
static void box(void) {
  const uint64_t copy[25] = {[4] = DEVICE_MEMORY, [6] = from, [9] = WIDTH, [10] = HEIGHT, [15] = DEVICE_MEMORY, [17] = to, [20] = WIDTH, [21] = HEIGHT,
                             [22] = WIDTH, [23] = HEIGHT, [24] = 1};
  OK(cuMemcpy3DAsync_v2(copy, NULL));
}

static void box_of_peers(void) {
  const uint64_t me = (uint64_t)(uintptr_t)own;
  const uint64_t copy[25] = {[4] = DEVICE_MEMORY, [6] = from, [8] = me, [9] = WIDTH, [10] = HEIGHT, [15] = DEVICE_MEMORY, [17] = to, [19] = me, [20] = WIDTH,
                             [21] = HEIGHT, [22] = WIDTH, [23] = HEIGHT, [24] = 1};
  OK(cuMemcpy3DPeerAsync(copy, NULL));
}

static const struct {
  const char *name;
  void (*copy)(void);
} forms[] = {{"linear", linear}, {"2d", rectangle}, {"3d", box}, {"peer", peer}, {"3d-peer", box_of_peers}, {"dtod", gated}};

int main(int argc, char **argv) {
  size_t form = 0;
  begin(argc, argv);
  while (argc > 2 && form < sizeof forms / sizeof *forms - 1 && strcmp(argv[2], forms[form].name) != 0)
    form++;
  OK(cuCtxGetCurrent(&own));
  OK(cuMemAlloc_v2(&from, BYTES));
  OK(cuMemAlloc_v2(&to, BYTES));
  for (int i = 1; going_on(); i++) {
    forms[form].copy();
    if (i % 4 == 0)
      OK(cuCtxSynchronize());
    ended();
  }
  return finish();
}
