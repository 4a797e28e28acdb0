/* spin COUNT NS: COUNT kernels of NS nanoseconds each on device 0, as an ordinary program would launch them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry fikit_spin(.param .u64 ns)\n{\n  ret;\n}\n";

#define CALL(name, ...)                                 \
  do {                                                  \
    int (*entry)() = (int (*)())dlsym(driver, #name);   \
    const int result = entry ? entry(__VA_ARGS__) : -1; \
    if (result != 0) {                                  \
      fprintf(stderr, "%s: %d\n", #name, result);       \
      return 1;                                         \
    }                                                   \
  } while (0)

int main(int argc, char **argv) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  const int count = argc > 1 ? atoi(argv[1]) : 100;
  unsigned long long ns = argc > 2 ? strtoull(argv[2], NULL, 10) : 10000;
  void *parameters[] = {&ns};
  void *context = NULL;
  void *module = NULL;
  void *function = NULL;
  int device = 0;
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CALL(cuInit, 0);
  CALL(cuDeviceGet, &device, 0);
  CALL(cuCtxCreate_v2, &context, 0, device);
  CALL(cuModuleLoadData, &module, (const void *)ptx);
  CALL(cuModuleGetFunction, &function, module, "fikit_spin");
  for (int i = 0; i < count; i++)
    CALL(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, (void *)0, parameters, (void **)0);
  CALL(cuCtxSynchronize);
  puts("done");
  return 0;
}
