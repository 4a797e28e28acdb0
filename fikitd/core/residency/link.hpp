// The link between a GPU and the host's memory, which goes one way at a time.
#pragma once

#include <cmath>
#include <cstdint>

namespace fikit::residency {

// Memory may come to the GPU (in) faster than it leaves it (out): by 48 and 14 GB/s on an H200.
struct Link {
  double in_bytes_per_s = 24e9;
  double out_bytes_per_s = 24e9;
  std::int64_t lead_ns = 0; // in a plan without a stretch, a chunk is back so long before it is needed

  bool is_valid() const {
    return std::isfinite(in_bytes_per_s) && in_bytes_per_s > 0 && std::isfinite(out_bytes_per_s) && out_bytes_per_s > 0;
  }
  double ns(bool in, double bytes) const { return bytes / (in ? in_bytes_per_s : out_bytes_per_s) * 1e9; }
  double both_bytes_per_s() const { return 2 / (1 / in_bytes_per_s + 1 / out_bytes_per_s); } // of as many bytes in as out
  Link times(double factor) const { return {in_bytes_per_s * factor, out_bytes_per_s * factor, lead_ns}; }
  bool operator==(const Link&) const = default;
};

} // namespace fikit::residency
