#include "libcuda/driver/call_log.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace emu {
namespace {

// Never destroyed: programs call the driver from atexit handlers.
struct Log {
  FILE* out = nullptr;
  std::mutex mutex;
  std::set<std::string> seen;

  Log() {
    const char* target = getenv("EMUCUDA_LOG");
    if (target == nullptr || *target == '\0') return;
    out = std::string(target) == "1" ? stderr : fopen(target, "ae");
    if (out == nullptr) fprintf(stderr, "emucuda: couldn't open %s, which EMUCUDA_LOG names: nothing is logged\n", target);
  }

  void once(const std::string& line) {
    const std::lock_guard lock(mutex);
    if (!seen.insert(line).second) return;
    fprintf(out, "emucuda[%d] %s\n", getpid(), line.c_str());
    fflush(out);
  }
};

Log& log() {
  static auto* made = new Log;
  return *made;
}

}  // namespace

bool call_log_on() { return log().out != nullptr; }

void log_call(const char* name) {
  if (call_log_on()) log().once(name);
}

void log_missing(const char* name, int version) {
  if (call_log_on()) log().once("cuGetProcAddress found no " + std::string(name) + " for version " + std::to_string(version));
}

}  // namespace emu
