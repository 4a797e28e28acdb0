// How busy something was a moment ago, as plain data in shared memory: what NVML reports as utilisation.
#pragma once

#include <algorithm>
#include <cstdint>

namespace emu {

inline constexpr int64_t kBusyBinNs = 50'000'000;
inline constexpr int kBusyBins = 8;       // power of two, more than the window needs
inline constexpr int kBusyWindowBins = 4;  // full bins before the current one: a sample period of 200 to 250 ms

// Busy time per bin of time. A bin belongs to `number` = time / kBusyBinNs; one with an older number reads as empty.
struct RecentBusy {
  struct Bin {
    int64_t number;
    int64_t busy_ns;
  };
  Bin bins[kBusyBins];

  void add(int64_t from_ns, int64_t to_ns) {
    const int64_t oldest = (to_ns / kBusyBinNs - kBusyBins + 1) * kBusyBinNs;
    for (int64_t at = std::max(from_ns, oldest); at < to_ns;) {
      const int64_t number = at / kBusyBinNs;
      const int64_t end = std::min(to_ns, (number + 1) * kBusyBinNs);
      Bin& bin = bins[number % kBusyBins];
      if (bin.number != number) bin = {number, 0};
      bin.busy_ns += end - at;
      at = end;
    }
  }

  // Share of the sample period before now_ns, 0 to 1.
  double share(int64_t now_ns) const {
    const int64_t first = now_ns / kBusyBinNs - kBusyWindowBins;
    int64_t busy_ns = 0;
    for (const Bin& bin : bins) busy_ns += bin.number >= first ? bin.busy_ns : 0;
    return static_cast<double>(busy_ns) / static_cast<double>(now_ns - first * kBusyBinNs);
  }
};

}  // namespace emu
