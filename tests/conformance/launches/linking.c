/* Several pieces of PTX linked into one image, and what a module made of it knows. */
#include "../conformance.h"

CUresult cuLinkCreate_v2(unsigned, int *, void **, void **), cuLinkDestroy(void *), cuLinkComplete(void *, void **, size_t *);
CUresult cuLinkAddData_v2(void *, int, void *, size_t, const char *, unsigned, int *, void **);

static char other_piece[] = ".version 6.0\n.target sm_52\n.address_size 64\n.visible .global .align 8 .b8 shared_table[24];\n"
                            ".visible .entry second(.param .u32 a, .param .u64 b) { ret; }\n";

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  CUfunction function;
  CUdeviceptr address;
  size_t bytes = 0;
  void *linker, *image;
  OK(cuLinkCreate_v2(0, NULL, NULL, &linker));
  OK(cuLinkAddData_v2(linker, 1, (void *)(uintptr_t)kPtx, sizeof kPtx, "first", 0, NULL, NULL));
  OK(cuLinkAddData_v2(linker, 1, other_piece, sizeof other_piece, "second", 0, NULL, NULL));
  OK(cuLinkComplete(linker, &image, &bytes));
  see("image_has_bytes", bytes > 0);
  OK(cuModuleLoadData(&module, image));
  OK(cuLinkDestroy(linker));
  see("kernel_of_first_piece", cuModuleGetFunction(&function, module, "emu_increment"));
  CUdeviceptr counter = zeroed(4);
  see("launch_of_linked_kernel", increment(function, counter, NULL));
  see("its_effect", word(counter));
  see("kernel_of_second_piece", cuModuleGetFunction(&function, module, "second"));
  see("absent_kernel", cuModuleGetFunction(&function, module, "third"));
  see("variable", cuModuleGetGlobal_v2(&address, &bytes, module, "shared_table"));
  see("its_bytes", (long long)bytes);
  see("absent_variable", cuModuleGetGlobal_v2(&address, &bytes, module, "__gomp_device_num"));
  return 0;
}
