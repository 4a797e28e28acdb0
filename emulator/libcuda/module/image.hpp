// What a module image contains: the names of its kernels and the sizes of its global variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emu {

// One parameter of a kernel: where it lies in the packed form, and its size.
struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct Image {
  std::vector<std::string> kernels;
  // By kernel. Only PTX says it in a public form: kernels of other images have no entry.
  std::map<std::string, std::vector<Parameter>> parameters;
  std::map<std::string, uint64_t> globals;  // name to bytes
  // The names could not be read (a compressed fat binary): every name is then taken as present.
  bool opaque = false;
};

// PTX text, an ELF cubin, or a fat binary (also behind cudart's wrapper), as cuModuleLoadData takes them: the length is
// not given, so it follows from the image itself. Throws Failure{INVALID_IMAGE} for anything else.
Image read_image(const void* image);

}  // namespace emu
