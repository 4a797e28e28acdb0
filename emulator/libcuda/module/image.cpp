#include "libcuda/module/image.hpp"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

#include "libcuda/driver/objects.hpp"

namespace emu {
namespace {

constexpr uint32_t kFatWrapperMagic = 0x466243b1;
constexpr uint32_t kFatMagic = 0xba55ed50;
constexpr unsigned char kEntryPoint = 0x10;  // st_other of a kernel's symbol in a cubin

template <typename T>
T load(const char* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

// --- PTX: a sequence of directives; `.entry NAME` and `.global|.const ... .TYPE NAME[COUNT]` are all that matters.

std::string without_comments(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      i = std::min(text.find("*/", i), text.size() - 2) + 1;
    } else {
      plain += text[i];
      continue;
    }
    plain += ' ';
  }
  return plain;
}

class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  // A word ([A-Za-z0-9_.$%]+) or one other character; empty at the end.
  std::string_view next() {
    const std::string_view token = peek();
    at_ = static_cast<size_t>(token.data() - text_.data()) + token.size();
    return token;
  }

  std::string_view peek() {
    while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    size_t end = at_;
    while (end < text_.size() && word(text_[end])) ++end;
    if (end == at_ && end < text_.size()) ++end;
    return text_.substr(at_, end - at_);
  }

 private:
  static bool word(char c) {
    return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$' || c == '%';
  }
  std::string_view text_;
  size_t at_ = 0;
};

uint64_t type_bytes(std::string_view type) {
  if (type == ".pred") return 1;
  if (type.size() < 3 || strchr("busf", type[1]) == nullptr || !isdigit(static_cast<unsigned char>(type[2]))) return 0;
  return std::stoull(std::string(type.substr(2))) / 8;
}

// After `.global` or `.const`: attributes, a type, then name[count]... separated by commas up to `;` or an initialiser.
void read_variables(Tokens& tokens, Image& image) {
  uint64_t element = 0;
  uint64_t vector = 1;
  std::string name;
  uint64_t count = 1;
  const auto finish = [&] {
    if (!name.empty()) image.globals[name] = element * vector * count;
    name.clear();
    count = 1;
  };
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    if (token == ".align") {
      tokens.next();
    } else if (token == ".v2" || token == ".v4") {
      vector = token == ".v2" ? 2 : 4;
    } else if (token[0] == '.') {
      element = std::max(element, type_bytes(token));
    } else if (token == "[") {
      const std::string size(tokens.next());
      count *= strtoull(size.c_str(), nullptr, 0);
    } else if (token == ";" || token == "=" || token == "{") {
      break;
    } else if (token == ",") {
      finish();
    } else if (token != "]" && name.empty()) {
      name = token;
    }
  }
  finish();
}

// `(.param .u64 a, .param .align 8 .b8 b[24])` after a kernel's name. Every parameter is aligned to its own size, or to
// its `.align`; the `.align` after `.ptr` is about what a pointer points to.
std::vector<Parameter> read_parameters(Tokens& tokens) {
  std::vector<Parameter> found;
  if (tokens.peek() != "(") return found;
  tokens.next();
  uint64_t element = 0;
  uint64_t align = 1;
  uint64_t count = 1;
  bool pointee = false;
  size_t end = 0;
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    if (token == ".ptr") {
      pointee = true;
    } else if (token == ".align") {
      const uint64_t value = strtoull(std::string(tokens.next()).c_str(), nullptr, 0);
      if (!pointee) align = std::max<uint64_t>(value, 1);
    } else if (token == "[") {
      count *= strtoull(std::string(tokens.next()).c_str(), nullptr, 0);
    } else if (token == "," || token == ")") {
      const uint64_t unit = std::max(align, element);
      if (element > 0) found.push_back({(end + unit - 1) / unit * unit, element * count});
      if (token == ")") break;
      end = found.empty() ? 0 : found.back().offset + found.back().bytes;
      element = 0;
      align = count = 1;
      pointee = false;
    } else if (token[0] == '.') {
      element = std::max(element, type_bytes(token));
    }
  }
  return found;
}

Image read_ptx(std::string_view text) {
  const std::string plain = without_comments(text);
  require(plain.find(".version") != std::string::npos, CUDA_ERROR_INVALID_IMAGE);
  Image image;
  Tokens tokens(plain);
  int depth = 0;
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    depth += token == "{" ? 1 : token == "}" ? -1 : 0;
    if (depth > 0) continue;
    if (token == ".entry") {
      const std::string name(tokens.next());
      image.kernels.push_back(name);
      image.parameters[name] = read_parameters(tokens);
    }
    if (token == ".global" || token == ".const") read_variables(tokens, image);
  }
  return image;
}

// --- ELF cubin: kernels are function symbols marked as entry points, globals are object symbols.

Image read_elf(const char* bytes) {
  const auto header = load<Elf64_Ehdr>(bytes);
  require(header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_shentsize == sizeof(Elf64_Shdr), CUDA_ERROR_INVALID_IMAGE);
  const auto section = [&](size_t i) { return load<Elf64_Shdr>(bytes + header.e_shoff + i * sizeof(Elf64_Shdr)); };
  Image image;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != SHT_SYMTAB || table.sh_entsize != sizeof(Elf64_Sym)) continue;
    const char* names = bytes + section(table.sh_link).sh_offset;
    for (size_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = load<Elf64_Sym>(bytes + table.sh_offset + at);
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FUNC && (symbol.st_other & kEntryPoint) != 0) image.kernels.emplace_back(names + symbol.st_name);
      if (type == STT_OBJECT) image.globals[names + symbol.st_name] = symbol.st_size;
    }
  }
  return image;
}

// --- Fat binary: a list of PTX and ELF images for several architectures; the names are the same in all of them.

Image read_fat(const char* bytes) {
  const auto header_bytes = load<uint16_t>(bytes + 6);
  const auto total = load<uint64_t>(bytes + 8);
  for (const char *entry = bytes + header_bytes, *end = entry + total; entry + 16 <= end;) {
    const auto kind = load<uint16_t>(entry);
    const auto entry_header = load<uint32_t>(entry + 4);
    const auto size = load<uint64_t>(entry + 8);
    const char* data = entry + entry_header;
    if (kind == 2 && memcmp(data, ELFMAG, SELFMAG) == 0) return read_elf(data);
    const std::string_view text(data, strnlen(data, size));
    if (kind == 1 && text.find(".version") != std::string_view::npos) return read_ptx(text);
    entry = data + size;
  }
  Image image;
  image.opaque = true;
  return image;
}

}  // namespace

Image read_image(const void* image) {
  require(image != nullptr, CUDA_ERROR_INVALID_VALUE);
  const char* bytes = static_cast<const char*>(image);
  if (memcmp(bytes, ELFMAG, SELFMAG) == 0) return read_elf(bytes);
  const auto magic = load<uint32_t>(bytes);
  if (magic == kFatMagic) return read_fat(bytes);
  if (magic == kFatWrapperMagic) return read_fat(load<const char*>(bytes + 8));
  return read_ptx(bytes);
}

}  // namespace emu
