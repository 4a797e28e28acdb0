// EMUCUDA_LOG: which driver functions a program calls, one line for each at its first call; what a new client needs.
#pragma once

namespace emu {

// False unless EMUCUDA_LOG is set: then nothing of this costs anything.
bool call_log_on();
// The first call of this function in the process is written down.
void log_call(const char* name);
// A name that cuGetProcAddress was asked for in vain.
void log_missing(const char* name, int version);

}  // namespace emu
