// Jobs, one device and one policy in manual time. Three existing parts play themselves: the policy and the predictor of
// fikitd's dispatcher, and the emulator's device model; this is only the clock, and the way between them.
//
// The same input gives the same output to the nanosecond: no randomness, no real time, ties in the order of the jobs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "costs.hpp"
#include "device_model/device_model.hpp"
#include "event_adapter.hpp"
#include "job.hpp"
#include "reactions.hpp"
#include "split.hpp"

namespace fikit::simulator {

// The GPU that the jobs share. Without MPS their kernels take turns and a turn of another job costs a switch.
struct Device {
  emu::Sharing sharing = emu::Sharing::slices;
  std::int64_t slice_ns = 1'024'000; // 0: a kernel runs to its end, then another job has its turn
  std::int64_t switch_ns = 50'000;   // assumed; emulator/profiles/h200.toml: measured
  emu::MpsModel mps_model = emu::MpsModel::proportion;
  std::int64_t mps_switch_ns = 0; // mps by admission: a kernel that waited for room starts so long after there is some
  double overlap_slowdown = 1; // mps: a kernel takes so many times as long while one of another job runs beside it
  bool idle_holds = false;     // slices: a job with nothing to run keeps its slice to the end
  std::int64_t launch_latency_ns = kRecorded; // as the first job's recording shows it
  std::int64_t kernel_gap_ns = kRecorded;
};

struct Setup {
  std::string policy = "fifo";
  policy::Policy::Make make; // a policy without a name, in its place
  policy::Options options;
  std::uint32_t marker_interval = 0; // as Dispatcher has it
  Knowledge knowledge = Knowledge::context;
  Costs costs;
  Reactions seen; // of the live dispatcher, in place of its costs
  Device device;
  std::int64_t lead_ns = 0; // the policy has known the jobs for so long before they begin
  bool measures = false; // the jobs' profiles are about to be made
  bool splits = false; // keep a Split of each job but the first
};

class Simulation final : public Notes {
 public:
  // Throws std::invalid_argument for an unknown policy, std::runtime_error when there is no room for the jobs.
  Simulation(const Setup& setup, const std::vector<JobOptions>& jobs);

  // Until the first job has ended so many requests, or `until_ns`. Throws std::runtime_error when nothing moves before.
  void run(std::size_t requests, std::int64_t until_ns);

  std::int64_t now_ns() const { return state_->time_ns; }
  Job& job(std::size_t number) { return *jobs_[number]; }
  const std::vector<std::unique_ptr<Job>>& jobs() const { return jobs_; }
  EventAdapter& adapter() { return adapter_; }
  const Split& split(std::size_t number) const { return followed_[number].split; } // only where Setup asks for it

  void note(const Note& note) override { adapter_.send(note, state_->time_ns); }

 private:
  std::int64_t next_ns();
  void decide(std::int64_t now_ns);
  void follow(std::int64_t now_ns);
  std::size_t state_of(std::size_t number) const;

  struct Followed {
    std::int64_t device_ns = 0; // used until then
    Split split;
  };
  struct Free {
    void operator()(emu::DeviceState* state) const { std::free(state); }
  };
  std::unique_ptr<emu::DeviceState, Free> state_; // 36 MB, of which a few jobs touch little: zero pages, as in a segment
  emu::DeviceModel device_;
  EventAdapter adapter_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<Followed> followed_; // by job; empty: not asked for
  std::int64_t followed_until_ns_ = 0;
};

} // namespace fikit::simulator
