// How the tools of the emulator write JSON.
#pragma once

#include <string>
#include <string_view>

namespace emu {

// In quotes, without what JSON does not allow in there.
inline std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

}  // namespace emu
