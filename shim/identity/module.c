/* All calls by which a program gets a kernel's handle. Remembers name and module of each, and forgets them on unload. */
#include "identity/identity.h"
#include "identity/image_hash.h"
#include "base/symbols.h"

static HANDLE_MAP(images); /* CUmodule or CUlibrary -> hash of its image */
static HANDLE_MAP(roots);  /* a library's CUmodule -> the CUlibrary; CUkernel -> likewise */

/* Handle with which `handle` is unloaded. */
static uintptr_t root_of(uintptr_t handle) {
  uintptr_t root = handle_map_get(&roots, handle);
  return root ? root : handle;
}

bool fikit_is_kernel_of_library(uintptr_t handle) {
  return handle_map_get(&roots, handle) != 0;
}

static void put(uintptr_t handle, uint64_t hash) {
  handle_map_put(&images, handle, (uintptr_t)hash, handle);
}

/* Hashes the image once the driver has accepted it: an image that it refuses may be shorter than its header says. */
static CUresult loaded(CUresult result, void *handle, const void *image) {
  if (result == CUDA_SUCCESS)
    put(*(uintptr_t *)handle, fikit_image_hash(image));
  return result;
}

static CUresult loaded_file(CUresult result, void *handle, const char *path) {
  if (result == CUDA_SUCCESS)
    put(*(uintptr_t *)handle, fikit_image_hash_file(path));
  return result;
}

static void unload(void *handle) {
  handle_map_erase_owner(&fikit_names, (uintptr_t)handle);
  handle_map_erase_owner(&roots, (uintptr_t)handle);
  handle_map_erase_owner(&images, (uintptr_t)handle);
}

/* In place of the hash of an image that the shim never saw: what the driver says that the function needs, which is the same in every process.
 * It tells apart two functions of one name. */
static uint64_t hash_of_needs(void *function, bool of_library) {
  /* Of CUfunction_attribute: threads, shared, constant and local bytes, registers, PTX and binary version. */
  enum { FIRST = 0, LAST = 6 };
  uint64_t hash = 0;
  CUdevice device = 0; /* a kernel of a library needs no context; any device of the machine will do then */
  if (of_library)
    REAL(cuCtxGetDevice)(&device);
  for (int attribute = FIRST; attribute <= LAST; attribute++) {
    int value = 0;
    CUresult result = of_library ? REAL(cuKernelGetAttribute)(&value, attribute, function, device)
                                 : REAL(cuFuncGetAttribute)(&value, attribute, function);
    if (result != CUDA_SUCCESS)
      return 0;
    hash = fikit_mix(hash + 1, (uint32_t)value);
  }
  return hash;
}

/* `function`, a CUfunction or CUkernel of `module`, a CUmodule or CUlibrary, has this name. */
static void learn(void *function, void *module, const char *name, bool of_library) {
  uint64_t hash = handle_map_get(&images, (uintptr_t)module);
  if (hash == 0 && name)
    hash = hash_of_needs(function, of_library);
  const struct fikit_name *record = name ? fikit_name_of(name, hash) : NULL;
  if (record)
    handle_map_put(&fikit_names, (uintptr_t)function, (uintptr_t)record, root_of((uintptr_t)module));
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
  return loaded_file(REAL(cuModuleLoad)(module, path), module, path);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return loaded(REAL(cuModuleLoadData)(module, image), module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values) {
  return loaded(REAL(cuModuleLoadDataEx)(module, image, count, options, values), module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  return loaded(REAL(cuModuleLoadFatBinary)(module, image), module, image);
}

/* Forget first: once unloaded, the handles may be given out again, in another thread. */
CUresult cuModuleUnload(CUmodule module) {
  unload(module);
  return REAL(cuModuleUnload)(module);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  CUresult result = REAL(cuModuleGetFunction)(function, module, name);
  if (result == CUDA_SUCCESS)
    learn(*function, module, name, false);
  return result;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module) {
  const char *name;
  CUresult result = REAL(cuModuleEnumerateFunctions)(functions, count, module);
  for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
    if (REAL(cuFuncGetName)(&name, functions[i]) == CUDA_SUCCESS)
      learn(functions[i], module, name, false);
  return result;
}

#define LIBRARY_ARGS jit_options, jit_values, jit_count, options, values, count

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, FIKIT_LIBRARY_LOAD_ARGS) {
  return loaded(REAL(cuLibraryLoadData)(library, code, LIBRARY_ARGS), library, code);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, FIKIT_LIBRARY_LOAD_ARGS) {
  return loaded_file(REAL(cuLibraryLoadFromFile)(library, path, LIBRARY_ARGS), library, path);
}

CUresult cuLibraryUnload(CUlibrary library) {
  unload(library);
  return REAL(cuLibraryUnload)(library);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
  CUresult result = REAL(cuLibraryGetModule)(module, library);
  if (result == CUDA_SUCCESS) {
    handle_map_put(&images, (uintptr_t)*module, handle_map_get(&images, (uintptr_t)library), (uintptr_t)library);
    handle_map_put(&roots, (uintptr_t)*module, (uintptr_t)library, (uintptr_t)library);
  }
  return result;
}

static void learn_kernel(CUkernel kernel, CUlibrary library, const char *name) {
  learn(kernel, library, name, true);
  handle_map_put(&roots, (uintptr_t)kernel, (uintptr_t)library, (uintptr_t)library);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  CUresult result = REAL(cuLibraryGetKernel)(kernel, library, name);
  if (result == CUDA_SUCCESS)
    learn_kernel(*kernel, library, name);
  return result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library) {
  const char *name;
  CUresult result = REAL(cuLibraryEnumerateKernels)(kernels, count, library);
  for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++)
    if (REAL(cuKernelGetName)(&name, kernels[i]) == CUDA_SUCCESS)
      learn_kernel(kernels[i], library, name);
  return result;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  CUresult result = REAL(cuKernelGetFunction)(function, kernel);
  uintptr_t name = result == CUDA_SUCCESS ? handle_map_get(&fikit_names, (uintptr_t)kernel) : 0;
  if (name)
    handle_map_put(&fikit_names, (uintptr_t)*function, name, root_of((uintptr_t)kernel));
  return result;
}
