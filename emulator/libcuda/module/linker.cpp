// The just-in-time linker. Nothing is compiled: the "cubin" that it returns is PTX text that declares the kernels and
// variables of all inputs, which is all that a module here is made of.
#include <cstring>
#include <fstream>
#include <iterator>

#include "libcuda/context/context.hpp"
#include "libcuda/module/image.hpp"

using namespace emu;

namespace {

struct Linker : Object {
  static constexpr ObjectKind kKind = ObjectKind::linker;
  Linker() : Object(kKind) {}
  Image image;
  std::string result;
};

// Numbers of CUjitInputType.
enum InputType { kCubin = 0, kPtx = 1, kFatBinary = 2, kObject = 3 };

// Numbers of CUjit_option: buffers for a compiler's messages, of which there are none here.
enum Option { kInfoLog = 3, kErrorLog = 5 };

void add(Linker& linker, int type, const std::string& bytes) {
  require(linker.result.empty(), CUDA_ERROR_INVALID_VALUE);
  require(type >= kCubin && type <= kObject, CUDA_ERROR_NOT_SUPPORTED);  // archives and NVVM code
  const Image input = read_image(bytes.c_str());
  require(!input.opaque, CUDA_ERROR_NOT_SUPPORTED);
  linker.image.kernels.insert(linker.image.kernels.end(), input.kernels.begin(), input.kernels.end());
  linker.image.parameters.insert(input.parameters.begin(), input.parameters.end());
  linker.image.globals.insert(input.globals.begin(), input.globals.end());
}

std::string declarations(const Image& image) {
  std::string text = "// linked by the emulated GPU\n.version 7.0\n.target sm_52\n.address_size 64\n";
  for (const auto& [name, bytes] : image.globals)
    text += ".visible .global .align 16 .b8 " + name + "[" + std::to_string(bytes) + "];\n";
  for (const std::string& name : image.kernels) {
    text += ".visible .entry " + name + "(";
    size_t end = 0;
    const auto parameters = image.parameters.find(name);
    for (size_t i = 0; parameters != image.parameters.end() && i < parameters->second.size(); ++i) {
      const Parameter& parameter = parameters->second[i];
      // Any alignment that leads from the end of the one before to this one's offset.
      size_t align = 1;
      while ((end + align - 1) / align * align < parameter.offset) align *= 2;
      text += std::string(i > 0 ? ", " : "") + ".param .align " + std::to_string(align) + " .b8 p" +
              std::to_string(i) + "[" + std::to_string(parameter.bytes) + "]";
      end = parameter.offset + parameter.bytes;
    }
    text += ") { ret; }\n";
  }
  return text;
}

}  // namespace

CU_EXPORT CUresult cuLinkCreate_v2(unsigned count, const int* options, void** values, CUlinkState* out) {
  return api([&] {
    current();
    require(out != nullptr && (count == 0 || (options != nullptr && values != nullptr)), CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; ++i) {
      const bool log = options[i] == kInfoLog || options[i] == kErrorLog;
      if (log && values[i] != nullptr) *static_cast<char*>(values[i]) = '\0';
    }
    *out = to_handle<CUlinkState>(new Linker);
  });
}

CU_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, int type, const void* data, size_t bytes, const char*, unsigned,
                                    const int*, void**) {
  return api([&] {
    auto& linker = from_handle<Linker>(state);
    require(data != nullptr && bytes > 0, CUDA_ERROR_INVALID_VALUE);
    add(linker, type, std::string(static_cast<const char*>(data), bytes));
  });
}

CU_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, int type, const char* path, unsigned, const int*, void**) {
  return api([&] {
    auto& linker = from_handle<Linker>(state);
    require(path != nullptr, CUDA_ERROR_INVALID_VALUE);
    std::ifstream file(path, std::ios::binary);
    require(file.good(), CUDA_ERROR_FILE_NOT_FOUND);
    add(linker, type, {std::istreambuf_iterator<char>(file), {}});
  });
}

// The result belongs to the linker: it dies with cuLinkDestroy (CUDA manual).
CU_EXPORT CUresult cuLinkComplete(CUlinkState state, void** out, size_t* bytes) {
  return api([&] {
    auto& linker = from_handle<Linker>(state);
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    linker.result = declarations(linker.image);
    *out = linker.result.data();
    if (bytes != nullptr) *bytes = linker.result.size() + 1;
  });
}

CU_EXPORT CUresult cuLinkDestroy(CUlinkState state) {
  return api([&] { delete &from_handle<Linker>(state); });
}
