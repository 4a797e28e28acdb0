// Kernels that do nothing for a given time, under recorded names.
#pragma once

#include <string>
#include <vector>

namespace replay {

// PTX identifier of a recorded name, different for every index, with the registers of a thread (0: not known), by which a
// rule of an emulated GPU's profile finds all kernels that need as many: "k3_40regs_void_at_native_elementwise_kernel".
std::string kernel_name(const std::string& recorded, size_t index, int registers);

// PTX of one kernel (.param .u64 ns) per name. The grid's first thread spins until its GPU's clock has gone `ns`
// further, the others end at once: a grid of many waves would take the time many times over. The emulated GPU runs no
// PTX, it takes the duration from the parameter.
std::string spin_module(const std::vector<std::string>& names);

}  // namespace replay
