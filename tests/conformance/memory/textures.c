/* Texture objects over linear and pitched memory. */
#include "../conformance.h"

typedef struct {
  int type;
  CUdeviceptr address;
  unsigned format, channels;
  size_t width, height, pitch;
  int reserved[22];
  unsigned flags;
} Resource;

CUresult cuTexObjectCreate(CUdeviceptr *, const Resource *, const void *, const void *), cuTexObjectDestroy(CUdeviceptr);
CUresult cuTexObjectGetResourceDesc(Resource *, CUdeviceptr);

enum { PITCH_2D = 3, UINT8 = 1 };

int main(void) {
  CUcontext context;
  open_device(&context);
  const int texture[26] = {0}; /* CUDA_TEXTURE_DESC: wrap, point sampling */
  Resource plane = {PITCH_2D, zeroed(64 * 512), UINT8, 1, 100, 64, 512, {0}, 0}, back;
  CUdeviceptr object;
  see("create", cuTexObjectCreate(&object, &plane, texture, NULL));
  OK(cuTexObjectGetResourceDesc(&back, object));
  see("width", (long long)back.width);
  see("same_memory", back.address == plane.address);
  see("destroy", cuTexObjectDestroy(object));
  plane.pitch = 500; /* not a multiple of the device's texture pitch alignment */
  see("odd_pitch", cuTexObjectCreate(&object, &plane, texture, NULL));
  see("no_resource", cuTexObjectCreate(&object, NULL, texture, NULL));
  return 0;
}
