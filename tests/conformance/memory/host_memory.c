/* Host memory that devices know: allocated, registered, asked about. */
#include <sys/mman.h>

#include "memory_api.h"

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned), cuMemHostGetFlags(unsigned *, void *);
CUresult cuPointerGetAttributes(unsigned, int *, void **, CUdeviceptr), cuMemGetHandleForAddressRange(void *, CUdeviceptr, size_t, int, unsigned long long);

enum { PORTABLE = 1, DEVICE_MAP = 2, TYPE = 2, DEVICE_POINTER = 3, HOST_POINTER = 4, BUFFER = 7, MANAGED = 8, START = 11, SIZE = 12, HOST = 1, DEVICE = 2 };

static CUdeviceptr address(const void *pointer) { return (CUdeviceptr)(uintptr_t)pointer; }

static CUresult type_of(CUdeviceptr pointer, unsigned *type) { return cuPointerGetAttribute(type, TYPE, pointer); }

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUdeviceptr on_device, base = 0;
  unsigned flags = 99, type = 99;
  size_t bytes = 0;
  void *pinned;

  char *page = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  see("register", cuMemHostRegister_v2(page, 8192, DEVICE_MAP));
  see("register_again", cuMemHostRegister_v2(page, 8192, DEVICE_MAP));
  see("register_overlap", cuMemHostRegister_v2(page + 4096, 8192, DEVICE_MAP));
  see("register_nothing", cuMemHostRegister_v2(page + 8192, 0, DEVICE_MAP));
  see("device_pointer", cuMemHostGetDevicePointer_v2(&on_device, page + 8, 0));
  OK(increment(kernel(module, "emu_increment"), on_device, NULL));
  OK(cuCtxSynchronize());
  see("shared_page_was_written", page[8]);
  OK(type_of(address(page), &type));
  see("registered_is_host", type);
  see("unregister", cuMemHostUnregister(page));
  see("unregister_again", cuMemHostUnregister(page));
  see("pointer_of_unregistered", cuMemHostGetDevicePointer_v2(&on_device, page, 0));
  see("flags_of_unregistered", cuMemHostGetFlags(&flags, page));
  see("attribute_of_unregistered", type_of(address(page), &type));

  see("allocate", cuMemHostAlloc(&pinned, 4096, PORTABLE));
  OK(cuMemHostGetFlags(&flags, pinned));
  see("portable", (flags & PORTABLE) != 0);
  see("unknown_flags", cuMemHostAlloc(&pinned, 4096, 1024));
  see("register_what_is_allocated", cuMemHostRegister_v2(pinned, 4096, 0));
  see("unregister_what_is_allocated", cuMemHostUnregister(pinned));
  see("free", cuMemFreeHost(pinned));

  CUdeviceptr memory = zeroed(5000);
  OK(cuMemGetAddressRange_v2(&base, &bytes, memory + 1000));
  see("range_begin", base == memory);
  see("range_bytes", (long long)bytes);
  OK(type_of(memory, &type));
  see("device_memory", type);
  see("no_host_pointer", cuPointerGetAttribute(&pinned, HOST_POINTER, memory));
  see("range_behind_it", cuMemGetAddressRange_v2(&base, &bytes, 64));

  /* All at once: what cannot be answered reads as zero. */
  CUdeviceptr pointer = 99, start = 99;
  unsigned long long id = 0;
  int managed = 99, attributes[] = {TYPE, DEVICE_POINTER, HOST_POINTER, BUFFER, MANAGED, START, SIZE};
  void *host = &host, *answers[] = {&type, &pointer, &host, &id, &managed, &start, &bytes};
  see("all", cuPointerGetAttributes(7, attributes, answers, memory + 16));
  see("all_type", type);
  see("all_pointer", pointer == memory + 16);
  see("all_host", host == NULL);
  see("all_id", id != 0);
  see("all_managed", managed);
  see("all_start", start == memory);
  see("all_size", (long long)bytes);
  see("all_of_unknown", cuPointerGetAttributes(1, attributes, answers, address(&type)));
  see("type_of_unknown", type);
  return 0;
}
