// The faults that strike this process: those of EMUCUDA_FAULTS, and those that `emuctl inject` put onto the device set.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "faults/rule.hpp"
#include "faults/table.hpp"

namespace emu {

// What an injected fault does to one launch.
struct KernelFault {
  double slow = 1;
  int error = 0;  // CUresult with which it ends, kDeviceLost included
  bool hang = false;
  int signal = 0;
};

class Faults {
 public:
  // Reads EMUCUDA_FAULTS; throws std::runtime_error with one sentence.
  explicit Faults(FaultTable table);

  // False as long as no rule exists anywhere: all that a program without faults pays for.
  bool armed() const { return armed_.load(std::memory_order_relaxed) || table_.generation() != seen_.load(); }
  KernelFault on_kernel(const std::string& name, int device);
  // Waits for the delay that a rule prescribes, and throws Failure for its error.
  void on_call(const char* name);

 private:
  struct Rule {
    FaultRule fault;
    std::string text;
    FaultCounts* counts;
    bool announced;
  };

  void refresh();
  bool strikes(Rule& rule, const std::string& name);

  FaultTable table_;
  std::vector<std::string> own_texts_;
  std::deque<FaultCounts> own_counts_;  // of EMUCUDA_FAULTS, which counts in this process only
  std::atomic<uint32_t> seen_{0};       // the table's generation that rules_ knows
  std::atomic<bool> armed_{false};
  std::mutex mutex_;
  std::vector<Rule> rules_;
};

// The process's faults once cuInit was called, else null.
extern std::atomic<Faults*> g_faults;

inline void call_fault(const char* name) {
  Faults* faults = g_faults.load(std::memory_order_acquire);
  if (faults != nullptr && faults->armed()) faults->on_call(name);
}

}  // namespace emu
