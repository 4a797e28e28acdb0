// Times of kernels that are not described yet. Descriptions come by the socket, on a busy node later than the times on the page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "client_page.hpp"

namespace fikit::tracking {

class PendingSamples {
 public:
  // The most that is kept of one client, since it may report any number.
  static constexpr std::size_t kMost = FIKIT_RING_ENTRIES;

  void keep(const Report& report) {
    if (kept_.size() < kMost) kept_.push_back(report);
  }

  // Removes and returns those of a slot, oldest first.
  std::vector<Report> take(std::uint32_t slot) {
    const auto others = [slot](const Report& report) { return report.slot != slot; };
    const auto first = std::stable_partition(kept_.begin(), kept_.end(), others);
    std::vector<Report> taken(first, kept_.end());
    kept_.erase(first, kept_.end());
    return taken;
  }

 private:
  std::vector<Report> kept_;
};

} // namespace fikit::tracking
