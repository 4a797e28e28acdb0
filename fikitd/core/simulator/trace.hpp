// A recording as a simulation needs it: what its host does, and what each kernel is called by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "predictor/kernel.hpp"
#include "replay/plan.hpp"
#include "replay/recording.hpp"

namespace fikit::simulator {

class Trace {
 public:
  // Text in the format of emulator/replay/recording.hpp. stretch: everything takes so many times as long, as on a dilated
  // device. Throws std::runtime_error, one sentence.
  explicit Trace(const std::string& text, double stretch = 1);
  Trace(const Trace&) = delete; // the plan points into the recording
  Trace& operator=(const Trace&) = delete;

  const replay::Recording& recording() const { return recording_; }
  const replay::Plan& plan() const { return plan_; }
  // As its host would be if it computed nothing between its calls and waited for nothing.
  const replay::Plan& thoughtless() const { return thoughtless_; }
  // By step; 0 for what is no kernel.
  predictor::Identity identity(std::size_t step) const { return identities_[step]; }
  predictor::Kernel kernel(std::size_t step) const;
  const std::vector<int>& streams() const { return streams_; }
  // Index into streams(), by step.
  std::size_t stream(std::size_t step) const { return stream_of_[step]; }
  std::size_t kernels() const { return kernels_; } // in one pass
  std::size_t last_kernel() const { return last_kernel_; } // its step

 private:
  replay::Recording recording_;
  replay::Plan plan_;
  replay::Plan thoughtless_;
  std::vector<predictor::Identity> identities_;
  std::vector<int> streams_;
  std::vector<std::size_t> stream_of_;
  std::size_t kernels_ = 0;
  std::size_t last_kernel_ = 0;
};

} // namespace fikit::simulator
