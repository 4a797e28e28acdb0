// emuctl's command about what the devices did. Returns the exit code, -1 when the arguments are not its own.
#pragma once

#include <string>
#include <vector>

namespace emu {

// `words`: what follows "trace".
int trace_devices(const std::vector<std::string>& words);

}  // namespace emu
