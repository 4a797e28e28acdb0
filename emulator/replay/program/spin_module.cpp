#include "spin_module.hpp"

#include <cctype>

namespace replay {
namespace {

constexpr size_t kLongestName = 120;

constexpr const char* kBody = R"((.param .u64 ns)
{
  .reg .pred %other, %early;
  .reg .b32 %x, %sum;
  .reg .b64 %now, %end;
  mov.u32 %sum, %tid.x;
  mov.u32 %x, %tid.y;
  or.b32 %sum, %sum, %x;
  mov.u32 %x, %tid.z;
  or.b32 %sum, %sum, %x;
  mov.u32 %x, %ctaid.x;
  or.b32 %sum, %sum, %x;
  mov.u32 %x, %ctaid.y;
  or.b32 %sum, %sum, %x;
  mov.u32 %x, %ctaid.z;
  or.b32 %sum, %sum, %x;
  setp.ne.u32 %other, %sum, 0;
  @%other ret;
  ld.param.u64 %end, [ns];
  mov.u64 %now, %globaltimer;
  add.u64 %end, %end, %now;
spin:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %early, %now, %end;
  @%early bra spin;
  ret;
}
)";

}  // namespace

std::string kernel_name(const std::string& recorded, size_t index, int registers) {
  std::string name = "k" + std::to_string(index) + "_" + std::to_string(registers) + "regs";
  bool gap = true;
  for (const char c : recorded) {
    const bool plain = isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain && gap) name += '_';
    if (plain) name += c;
    gap = !plain;
    if (name.size() >= kLongestName) break;
  }
  return name;
}

std::string spin_module(const std::vector<std::string>& names) {
  std::string text = ".version 6.0\n.target sm_50\n.address_size 64\n";
  for (const std::string& name : names) text += ".visible .entry " + name + kBody;
  return text;
}

}  // namespace replay
