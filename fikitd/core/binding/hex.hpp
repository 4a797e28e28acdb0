// Identities and hashes as the profile file writes them: 16 hexadecimal digits.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace fikit::binding {

inline std::string hex(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

inline std::uint64_t from_hex(nanobind::handle text) {
  return std::strtoull(nanobind::cast<std::string>(text).c_str(), nullptr, 16);
}

} // namespace fikit::binding
