// The host of a recording, call by call: what it does next, and when. Its owner says what then really happened; only what
// the device does to the host moves it. play() and the simulator live through recordings by this one rule.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plan.hpp"

namespace replay {

class Host {
 public:
  // The plan must outlive the host.
  explicit Host(const Plan& plan) : plan_(&plan) {}

  // From the first step on.
  void begin(int64_t now_ns);
  bool finished() const { return index_ == plan_->steps.size(); }
  size_t index() const { return index_; }
  const Step& step() const { return plan_->steps[index_]; }
  // When the step's work is handed over (a synchronisation: when the call begins).
  int64_t due_ns() const { return due_ns_ + step().think_ns + step().delay_ns; }

  // The three moments of a step. It is handed over now, at due_ns() or late;
  void calls(int64_t now_ns);
  // it is through: the device has taken its work, which may have kept the host, or a step that waits has its wait over.
  void returns(int64_t now_ns);
  // The step's call is not made before: its thread waits for something.
  void not_before(int64_t t_ns) { due_ns_ = std::max(due_ns_, t_ns - step().think_ns); }
  // The call took so much longer, for a reason that the recording does not know.
  void spends(int64_t ns) { due_ns_ += ns; }

 private:
  const Plan* plan_;
  size_t index_ = 0;
  // The moment at which the host should be where it is. It runs on even when a sleep ends late, so that the next steps
  // catch up.
  int64_t due_ns_ = 0;
  int64_t called_ns_ = 0;
  bool begun_ = false;
};

}  // namespace replay
