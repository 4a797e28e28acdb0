#include "libcuda/module/module.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>

#include "device_model/limits.hpp"

namespace emu {
namespace {

const std::string& keep(std::string name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return *names->insert(std::move(name)).first;
}

int threads_with(int registers) {
  const int room = limits::kRegistersPerMultiprocessor / limits::allocated_registers(registers);
  return std::min(limits::kThreadsPerBlock, room / limits::kWarp * limits::kWarp);
}

}  // namespace

Function::Function(Code& c, std::string n)
    : Object(kKind),
      code(c),
      name(keep(std::move(n))),
      rule(driver().config().rule_for(name)),
      effect(test_kernel_effect(name)),
      most_threads(threads_with(rule.registers)) {
  attributes[kMaxDynamicShared] = limits::kSharedPerBlock;
  attributes[kSharedCarveout] = -1;
}

const std::vector<Parameter>* Function::parameters() const {
  const auto found = code.image.parameters.find(name);
  return found == code.image.parameters.end() ? nullptr : &found->second;
}

Code::~Code() {
  for (const auto& [name, bytes] : globals_) driver().memory().take(reinterpret_cast<uintptr_t>(bytes.get()));
}

Function& Code::function(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& entry = functions_[name];
  if (entry != nullptr) return *entry;
  const bool present =
      image.opaque || std::find(image.kernels.begin(), image.kernels.end(), name) != image.kernels.end();
  if (!present) functions_.erase(name);
  require(present, CUDA_ERROR_NOT_FOUND);
  entry = std::make_unique<Function>(*this, name);
  return *entry;
}

Kernel& Code::kernel(const std::string& name) {
  Function& behind = function(name);
  const std::lock_guard lock(mutex_);
  auto& entry = kernels_[name];
  if (entry == nullptr) {
    entry = std::make_unique<Kernel>(behind);
    behind.kernel = entry.get();
  }
  return *entry;
}

CUdeviceptr Code::global(const std::string& name, size_t* bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = image.globals.find(name);
  require(found != image.globals.end(), CUDA_ERROR_NOT_FOUND);
  auto& storage = globals_[name];
  if (storage == nullptr) {
    storage = std::make_unique<char[]>(std::max<uint64_t>(found->second, 1));
    driver().memory().insert({reinterpret_cast<uintptr_t>(storage.get()), found->second, 0, MemoryKind::global,
                              context == nullptr ? &current() : context, nullptr, 0});
  }
  if (bytes != nullptr) *bytes = found->second;
  return reinterpret_cast<CUdeviceptr>(storage.get());
}

Function& function_of(const void* handle) {
  if (Function* function = try_handle<Function>(handle)) return *function;
  return from_handle<Kernel>(handle).function;
}

}  // namespace emu

using namespace emu;

namespace {

std::string file_bytes(const char* path) {
  require(path != nullptr, CUDA_ERROR_INVALID_VALUE);
  std::ifstream file(path, std::ios::binary);
  require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Loading and unloading wait for the context's work (an H200's driver: tests/conformance, what_waits).
CUmodule load(const void* image) {
  Context& context = current();
  auto module = std::make_unique<Module>(context, read_image(image));
  context.synchronize();
  return to_handle<CUmodule>(module.release());
}

}  // namespace

CU_EXPORT CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = load(image);
  });
}

CU_EXPORT CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(out, image);
}
CU_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) { return cuModuleLoadData(out, image); }

CU_EXPORT CUresult cuModuleLoad(CUmodule* out, const char* path) {
  return api([&] {
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = load(file_bytes(path).c_str());
  });
}

CU_EXPORT CUresult cuModuleUnload(CUmodule handle) {
  return api([&] {
    driver();
    auto& module = from_handle<Module>(handle);
    synchronize_current();
    delete &module;
  });
}

CU_EXPORT CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  return api([&] {
    require(out != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUfunction>(&from_handle<Module>(module).function(name));
  });
}

CU_EXPORT CUresult cuModuleGetFunctionCount(unsigned* out, CUmodule module) {
  return api([&] { given(out) = static_cast<unsigned>(from_handle<Module>(module).image.kernels.size()); });
}

CU_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned count, CUmodule handle) {
  return api([&] {
    auto& module = from_handle<Module>(handle);
    const auto& names = module.image.kernels;
    for (unsigned i = 0; i < count && i < names.size(); ++i) out[i] = to_handle<CUfunction>(&module.function(names[i]));
  });
}

CU_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* out, size_t* bytes, CUmodule module, const char* name) {
  return api([&] {
    require(name != nullptr, CUDA_ERROR_INVALID_VALUE);
    const CUdeviceptr address = from_handle<Module>(module).global(name, bytes);
    if (out != nullptr) *out = address;
  });
}

CU_EXPORT CUresult cuModuleGetLoadingMode(int* mode) {
  return api([&] { given(mode) = 1; });  // eager
}

CU_EXPORT CUresult cuLibraryLoadData(CUlibrary* out, const void* image, int*, void**, unsigned, int*, void**,
                                     unsigned) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUlibrary>(new Library(read_image(image)));
  });
}

CU_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, int*, void**, unsigned, int*, void**,
                                         unsigned) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUlibrary>(new Library(read_image(file_bytes(path).c_str())));
  });
}

CU_EXPORT CUresult cuLibraryUnload(CUlibrary handle) {
  return api([&] {
    driver();
    auto& library = from_handle<Library>(handle);
    delete library.module;
    delete &library;
  });
}

CU_EXPORT CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  return api([&] {
    require(out != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUkernel>(&from_handle<Library>(library).kernel(name));
  });
}

CU_EXPORT CUresult cuLibraryGetKernelCount(unsigned* out, CUlibrary library) {
  return api([&] { given(out) = static_cast<unsigned>(from_handle<Library>(library).image.kernels.size()); });
}

CU_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned count, CUlibrary handle) {
  return api([&] {
    auto& library = from_handle<Library>(handle);
    const auto& names = library.image.kernels;
    for (unsigned i = 0; i < count && i < names.size(); ++i) out[i] = to_handle<CUkernel>(&library.kernel(names[i]));
  });
}

CU_EXPORT CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  return api([&] {
    auto& library = from_handle<Library>(handle);
    if (library.module == nullptr) library.module = new Module(current(), library.image);
    given(out) = to_handle<CUmodule>(library.module);
  });
}

CU_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* out, size_t* bytes, CUlibrary library, const char* name) {
  return api([&] {
    const CUdeviceptr address = from_handle<Library>(library).global(name, bytes);
    if (out != nullptr) *out = address;
  });
}

CU_EXPORT CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  return api([&] { given(out) = to_handle<CUfunction>(&from_handle<Kernel>(kernel).function); });
}

CU_EXPORT CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel kernel) {
  return api([&] { given(out) = to_handle<CUlibrary>(&from_handle<Kernel>(kernel).function.code); });
}
