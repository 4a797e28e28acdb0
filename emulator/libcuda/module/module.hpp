// Modules, libraries and their kernels.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "libcuda/driver/config.hpp"
#include "libcuda/context/context.hpp"
#include "libcuda/module/image.hpp"
#include "libcuda/module/test_kernels.hpp"

namespace emu {

struct Kernel;
struct Code;

// Numbers of CUfunction_attribute.
enum FunctionAttribute {
  kMaxThreadsPerBlock = 0,
  kNumRegs = 4,
  kPtxVersion = 5,
  kBinaryVersion = 6,
  kMaxDynamicShared = 8,
  kSharedCarveout = 9,
  kClusterWidth = 11,
  kClusterHeight = 12,
  kClusterDepth = 13,
  kNonPortableClusters = 14,
  kClusterScheduling = 15,
  kLastAttribute = kClusterScheduling,
  kFunctionAttributes,
};

// What the calls of the first CUDA versions set before a launch, one by one.
struct LegacyLaunch {
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  std::vector<char> parameters;
};

struct Function : Object {
  static constexpr ObjectKind kKind = ObjectKind::function;
  Function(Code& c, std::string n);
  Code& code;
  const std::string& name;  // never freed: commands and graphs name their kernel by it
  const KernelRule& rule;  // how long it takes
  const KernelEffect effect;
  const int most_threads;  // in a block, for which there are registers
  // By number; what programs cannot set is not kept here.
  int attributes[kFunctionAttributes] = {};
  LegacyLaunch legacy;
  std::atomic<bool> loaded{false};  // by its first launch, or when the program asked for it
  // Null when the image does not say it.
  const std::vector<Parameter>* parameters() const;
  Kernel* kernel = nullptr;  // the context-free handle of the same kernel
};

// What cuLibraryGetKernel gives out: the same function without a context. Every launch call takes both handles.
struct Kernel : Object {
  static constexpr ObjectKind kKind = ObjectKind::kernel;
  explicit Kernel(Function& f) : Object(kKind), function(f) {}
  Function& function;
};

// What modules and libraries have in common: an image's functions and variables, made when they are asked for.
struct Code : Object {
  Code(ObjectKind kind, Context* c, Image i) : Object(kind), context(c), image(std::move(i)) {}
  ~Code();
  Function& function(const std::string& name);  // throws NOT_FOUND
  Kernel& kernel(const std::string& name);
  CUdeviceptr global(const std::string& name, size_t* bytes);

  Context* context;  // null for a library, which belongs to no context
  const Image image;

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
  std::map<std::string, std::unique_ptr<char[]>> globals_;
};

struct Module : Code {
  static constexpr ObjectKind kKind = ObjectKind::module;
  Module(Context& c, Image i) : Code(kKind, &c, std::move(i)) {}
};

struct Library : Code {
  static constexpr ObjectKind kKind = ObjectKind::library;
  explicit Library(Image i) : Code(kKind, nullptr, std::move(i)) {}
  Module* module = nullptr;  // made by cuLibraryGetModule
};

// The function behind a CUfunction or a CUkernel.
Function& function_of(const void* handle);

}  // namespace emu
