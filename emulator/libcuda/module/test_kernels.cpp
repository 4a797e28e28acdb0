#include "libcuda/module/test_kernels.hpp"

namespace emu {
namespace {

constexpr uint32_t kOutOfOrder = 0xdeadbeef;

std::function<void(const Ran&)> increment(const Arguments& arguments) {
  auto* counter = arguments.get<uint32_t*>(0, 0);
  return [counter](const Ran&) { *counter += 1; };
}

std::function<void(const Ran&)> check_order(const Arguments& arguments) {
  auto* counter = arguments.get<uint32_t*>(0, 0);
  const auto expected = arguments.get<uint32_t>(1, sizeof counter);
  return [counter, expected](const Ran&) { *counter = *counter == expected ? expected + 1 : kOutOfOrder; };
}

std::function<void(const Ran&)> stamp(const Arguments& arguments) {
  auto* stamps = arguments.get<int64_t*>(1, sizeof(uint64_t));
  return [stamps](const Ran& ran) { stamps[0] = ran.start_ns, stamps[1] = ran.end_ns; };
}

}  // namespace

KernelEffect test_kernel_effect(const std::string& name) {
  if (name == "emu_increment") return increment;
  if (name == "emu_check_order") return check_order;
  if (name == "fikit_stamp") return stamp;
  return nullptr;
}

}  // namespace emu
