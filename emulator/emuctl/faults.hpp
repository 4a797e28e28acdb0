// emuctl's commands about injected faults. Each returns the exit code.
#pragma once

#include <string>
#include <vector>

namespace emu {

// `words`: one rule (faults/rule.hpp), in one argument or several.
int inject_fault(const std::vector<std::string>& words);
int list_faults(bool json);
// One rule, or all of them and every device that was lost.
int clear_faults(const std::string& id);
// Devices in use fall off the bus: the one with this index, or all.
int lose_devices(const std::string& index);
void remove_fault_tables();

}  // namespace emu
