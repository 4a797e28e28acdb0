// Samples for SwitchMeter: by how much a client's work ended later than reckoned, where it began right after its own or another
// client's work had ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "device_use.hpp"
#include "predictor/prediction.hpp"
#include "switch_meter.hpp"

namespace fikit::tracking {

class SwitchWatch {
 public:
  // overlaps: its kernels run beside others' (MPS), so that there is no switch. use, meter: its GPU's; they outlive it, or leave() is called
  // before they go.
  SwitchWatch(policy::ClientId client, int level, bool overlaps, DeviceUse& use, SwitchMeter& meter);
  SwitchWatch(const SwitchWatch&) = delete;
  SwitchWatch& operator=(const SwitchWatch&) = delete;

  void granted(std::int64_t now_ns);
  // request: its grant; 0: through an open gate.
  void launched(std::uint64_t number, std::uint32_t request, std::int64_t t_ns, const predictor::DurationPrediction& predicted);
  // A copy between host and device was made: the host may be waiting for it too, and launches may run after it.
  void copied() { copied_ = true; }
  // All launches up to this number, or up to the last of this grant, are complete. all: so is all that the client has launched, and no
  // grant is open.
  void complete(std::uint64_t number, bool all, const Moment& when);
  void grant_complete(std::uint32_t request, bool all, const Moment& when);
  // Reports of launches were lost.
  void lost() { count_ = 0, partly_ = true; }
  void leave(std::int64_t now_ns);
  void set_level(int level) { stay_.level = level; }

 private:
  // A launch that is not known to be complete.
  struct Launch {
    std::uint64_t number = 0;
    std::uint32_t request = 0;
    std::int64_t t_ns = 0;
    std::int64_t duration_ns = 0; // predicted; negative: unknown
    std::int64_t spread_ns = 0;
  };
  static constexpr std::size_t kKept = 16; // the newest; with more at once the beginning of the first is known too inexactly
  void begin(std::int64_t t_ns);
  void drop(std::size_t count, bool all, const Moment& when);
  void look(std::size_t count, const Moment& end);
  std::optional<Moment> others_end(std::int64_t from_ns, const Moment& end, int& level) const;

  DeviceUse& use_;
  SwitchMeter& meter_;
  Stay stay_;
  bool overlaps_;
  std::int64_t sure_ns_;
  std::int64_t edge_ns_;
  std::int64_t short_ns_;
  std::int64_t queued_ns_;
  bool entered_ = true;
  bool partly_ = false; // launches before the oldest one here may not be complete
  bool copied_ = false; // a copy was made since all was last complete
  std::array<Launch, kKept> launches_{}; // oldest first
  std::size_t count_ = 0;
};

} // namespace fikit::tracking
