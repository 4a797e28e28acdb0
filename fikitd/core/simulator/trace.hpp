// A recording as a simulation needs it: what its host does, and what each kernel is called by.
#pragma once

#include <cstdint>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "device_model/occupancy.hpp"
#include "predictor/kernel.hpp"
#include "replay/plan.hpp"
#include "replay/recording.hpp"

namespace fikit::simulator {

inline constexpr std::int64_t kRecorded = -1; // as the recording shows it

class Trace {
 public:
  // Text in the format of emulator/replay/recording.hpp. stretch: everything takes so many times as long, as on a dilated
  // device. Throws std::runtime_error, one sentence.
  // launch_latency_ns, kernel_gap_ns: of a device that is not the recorded one.
  explicit Trace(std::string text, double stretch = 1, std::int64_t launch_latency_ns = kRecorded, std::int64_t kernel_gap_ns = kRecorded);
  Trace(const Trace&) = delete; // the plan points into the recording
  Trace& operator=(const Trace&) = delete;

  // The same job on a device with these: its host lives as recorded.
  std::unique_ptr<Trace> on(std::int64_t launch_latency_ns, std::int64_t kernel_gap_ns) const;

  const replay::Recording& recording() const { return recording_; }
  const replay::Plan& plan() const { return plan_; }
  // As its host would be if it computed nothing between its calls and waited for nothing.
  const replay::Plan& thoughtless() const { return thoughtless_; }
  // Does the step pass the gate as a launch does? fills: memsets and copies within the device do, too (fikit_fills_ask).
  bool launches(std::size_t step, bool fills) const;
  // By step; 0 for what is no kernel and no fill.
  predictor::Identity identity(std::size_t step) const { return identities_[step]; }
  predictor::Kernel kernel(std::size_t step) const;
  // Of its page, by step; 0 for what is no kernel and no fill, and for those beyond its slots.
  std::uint32_t slot(std::size_t step) const { return slots_[step]; }
  const std::vector<std::size_t>& described() const { return described_; } // a step of each slot, from slot 1 on
  // What it takes of the device while it runs, by step; of what is no work of the compute engine, all.
  const emu::Occupancy& occupancy(std::size_t step) const { return occupancies_[step]; }
  const std::vector<int>& streams() const { return streams_; }
  // Index into streams(), by step.
  std::size_t stream(std::size_t step) const { return stream_of_[step]; }
  std::size_t kernels() const { return kernels_; } // in one pass
  std::size_t last_launch(bool fills) const { return last_launch_[fills]; } // its step; fills: see launches()

 private:
  std::string text_;
  double stretch_;
  replay::Recording recording_;
  replay::Plan plan_;
  replay::Plan thoughtless_;
  std::vector<predictor::Identity> identities_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::size_t> described_;
  std::vector<emu::Occupancy> occupancies_;
  std::vector<int> streams_;
  std::vector<std::size_t> stream_of_;
  std::size_t kernels_ = 0;
  std::array<std::size_t, 2> last_launch_{}; // with fills: [true]
};

} // namespace fikit::simulator
