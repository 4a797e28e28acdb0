#include "cuda_driver.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace replay {

CudaDriver::CudaDriver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(std::string("couldn't load the CUDA driver: ") + dlerror());
#define REPLAY_FIND(name, parameters)                               \
  (name) = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if ((name) == nullptr) throw std::runtime_error("couldn't find " #name " in libcuda.so.1");
  REPLAY_DRIVER_FUNCTIONS(REPLAY_FIND)
#undef REPLAY_FIND
}

void check(int result, const char* call) {
  if (result != 0)
    throw std::runtime_error("couldn't run " + std::string(call) + ": driver error " + std::to_string(result));
}

}  // namespace replay
