#include "test_kernels.hpp"

namespace emu {
namespace {

constexpr uint32_t kOutOfOrder = 0xdeadbeef;

std::function<void(int64_t)> increment(const Arguments& arguments) {
  auto* counter = arguments.get<uint32_t*>(0, 0);
  return [counter](int64_t) { *counter += 1; };
}

std::function<void(int64_t)> check_order(const Arguments& arguments) {
  auto* counter = arguments.get<uint32_t*>(0, 0);
  const auto expected = arguments.get<uint32_t>(1, sizeof counter);
  return [counter, expected](int64_t) { *counter = *counter == expected ? expected + 1 : kOutOfOrder; };
}

}  // namespace

KernelEffect test_kernel_effect(const std::string& name) {
  if (name == "emu_increment") return increment;
  if (name == "emu_check_order") return check_order;
  return nullptr;
}

}  // namespace emu
