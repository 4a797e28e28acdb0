// One injected fault: when it strikes, and what then happens. Written by people as words, for example
//   kernel=r_* nth=3 error=700
// The words are in docs/design/contracts.md, "Injected faults".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace emu {

struct FaultRule {
  // When: the matches of a pattern are counted from 1.
  bool on_kernel = true;  // glob on a kernel's name; false: on a driver call's name
  std::string pattern;
  int device = -1;   // index of the only device it concerns, -1 = any. Kernels only
  int32_t pid = 0;   // the only process it concerns, 0 = any
  uint64_t nth = 1;  // first match that may strike
  uint64_t times = 1;
  double chance = 1;  // of striking, per match from `nth` on
  uint64_t seed = 1;  // which of them: the same seed strikes the same matches

  // What. A kernel:
  int error = 0;     // fails at its end and kills its context. A call: returns this without doing anything
  double slow = 1;   // takes so many times as long
  bool hang = false;  // never ends
  int signal = 0;     // launching it sends the process this signal while it holds the device's lock
  bool lost = false;  // fails at its end, and the device is gone for everybody
  // A call:
  int64_t delay_ns = 0;  // begins so much later

  bool matches(const std::string& name) const;
  // Whether match number `match` is one that may strike; `times` is the caller's to count.
  bool strikes(uint64_t match) const;
};

inline constexpr uint64_t kAlways = UINT64_MAX;  // times=all

// Throws std::runtime_error with one sentence: the word, what is wrong with it, what is allowed.
FaultRule parse_fault(const std::string& text);
// Rules separated by ';' or lines; '#' begins a comment that ends with the line.
std::vector<std::string> split_faults(const std::string& text);

}  // namespace emu
