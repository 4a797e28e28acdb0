// One job of a simulation: a host that lives through its recording again and again, and its streams on the device. It
// stands at the gate as the shim does: kernels wait while it is closed, everything else passes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "costs.hpp"
#include "device_model/device_model.hpp"
#include "policy/copying.hpp"
#include "predictor/model.hpp"
#include "predictor/rhythm.hpp"
#include "predictor/runs.hpp"
#include "reactions.hpp"
#include "replay/host.hpp"
#include "trace.hpp"
#include "truth.hpp"

namespace fikit::simulator {

inline constexpr std::int64_t kNever = emu::kNever;

// What the shim would write on its page, or the device model knows.
struct Note {
  enum class Kind : std::uint8_t { launched, granted, waiting, copied, drained, done, reached };
  Kind kind = Kind::launched;
  std::uint32_t job = 0;
  std::uint32_t request = 0;
  std::size_t step = 0;
  std::int64_t t_ns = 0;
  std::int64_t began_ns = 0; // drained: when the host began to wait
  std::uint32_t mark = 0;    // launched: this one stands behind it on the device; reached: this one
};

class Notes {
 public:
  virtual ~Notes() = default;
  virtual void note(const Note& note) = 0;
};

// What an earlier run left behind.
struct Profile {
  predictor::Model model;
  predictor::Rhythm rhythm;
  predictor::Runs runs;
  Truth truth; // only an oracle looks at it
};

struct JobOptions {
  const Trace* trace = nullptr;
  int priority = 5;
  const Profile* profile = nullptr; // nullptr: starts without
  bool rhythm = true;                        // of the profile; false: learns anew where its host waits
  bool runs = true;                          // of the profile; false: learns anew what follows without a wait
  bool managed = true;                       // false: no fikit at all, at no cost
  bool thinks = true;                        // false: its host computes nothing between its calls
  // When its requests arrive; empty: the next one follows the end of the last one (closed loop). One request is one pass
  // through the recording, at whose end the host waits for all its work.
  std::vector<std::int64_t> arrivals;
};

struct Request {
  std::int64_t arrival_ns = 0;
  std::int64_t end_ns = 0;
};

// A kernel that ran. Times on the device.
struct Ran {
  std::size_t step = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

class Job {
 public:
  Job(std::uint32_t number, const JobOptions& options, const Costs& costs, const Reactions& seen, emu::DeviceModel& device,
      Notes& notes);

  // When it does something by itself; kNever while it waits for the device or the gate.
  std::int64_t next_ns() const { return next_ns_; }
  // The device is at now_ns: take note of what it has completed. True if there was something.
  bool collect(std::int64_t now_ns);
  void act(std::int64_t now_ns); // at next_ns()

  void set_gate(bool closed, std::int64_t now_ns);
  void grant(std::uint32_t request, std::uint32_t launches, std::int64_t now_ns);
  void ask_copies(policy::CopyEngines engines) { copies_ask_ = engines; } // long ones, at the closed gate
  void end_run() { run_ = 0; }
  // Who stands at the gate already waits for the answer to its request.
  void extend_run(std::uint32_t launches) {
    if (state_ != State::at_gate) run_ += launches;
  }

  int priority() const { return options_.priority; }
  const Trace& trace() const { return *options_.trace; }
  std::int64_t duration_ns(std::size_t step) const { return trace().plan().steps[step].event->duration_ns; }
  const Profile* profile() const { return options_.profile; }
  bool knows_rhythm() const { return options_.profile != nullptr && options_.rhythm; }
  bool knows_runs() const { return options_.profile != nullptr && options_.runs; }
  bool managed() const { return options_.managed; }
  int process() const { return process_; }
  // What the step occupies; compute also where it is no copy between host and device.
  policy::Engine engine(std::size_t step) const;
  std::uint64_t bytes(std::size_t step) const { return trace().plan().steps[step].event->bytes; }
  std::int64_t device_ns() const { return device_.busy_ns(process_); }
  std::uint64_t kernels() const { return kernels_; }
  std::uint64_t granted() const { return granted_; }
  // When the request in hand arrived, or the next one will; kNever: there is none.
  std::int64_t arrival_ns() const { return state_ == State::absent ? kNever : current_.arrival_ns; }
  const std::vector<Request>& requests() const { return requests_; } // that have ended
  bool in_flight() const { return kernels_in_flight_ > 0; } // as far as was collected
  bool at_gate() const { return state_ == State::at_gate || state_ == State::passing; }
  // What ran since the last call, in order of launch within a stream. Kept only on request.
  void keep_runs() { keeps_runs_ = true; }
  const std::vector<Ran>& runs() const { return runs_; }
  void forget_runs() { runs_.clear(); }

 private:
  enum class State : std::uint8_t { absent, calling, at_gate, passing, queue_full, waiting, at_end };
  struct Stream {
    int slot = emu::kNone;
    std::uint64_t collected = 0;
    std::vector<std::size_t> steps; // by sequence number modulo the ring: which step, and which grant it had
    std::vector<std::uint32_t> requests;
    std::vector<std::uint32_t> marks;
  };

  struct Place {
    int slot = emu::kNone;
    std::uint64_t seq = 0;
  };

  void next_request(std::int64_t now_ns);
  void call(std::int64_t now_ns);
  void issue(std::int64_t now_ns);
  bool enqueue(const emu::OpRequest& op, std::size_t step, std::uint32_t request);
  void go_on(std::int64_t now_ns);
  void plan_next();
  bool drained() const;
  bool awaited_done() const;
  void complete(Stream& stream, std::int64_t end_ns, std::uint64_t seq);
  Stream& stream_of(std::size_t step) { return streams_[options_.trace->stream(step)]; }
  void note(Note::Kind kind, std::int64_t now_ns, std::uint32_t request = 0, std::uint32_t mark = 0);
  void mark_end(std::int64_t now_ns); // of a run that was ended
  void find_gaps();
  bool copy_asks() const; // the step in hand is a copy that asks
  std::uint32_t put_mark(); // 0: none

  std::uint32_t number_;
  JobOptions options_;
  std::int64_t launch_ns_;
  Reaction wake_;
  Reaction turn_;
  emu::DeviceModel& device_;
  Notes& notes_;
  replay::Host host_;
  int process_;
  std::vector<Stream> streams_;
  std::vector<Place> numbered_; // work of this pass that other streams' work, or the host, waits for

  State state_ = State::absent;
  std::int64_t called_ns_ = 0; // the step in hand
  std::int64_t next_ns_ = 0;
  std::uint32_t request_ = 0; // newest at the gate
  bool closed_ = false;
  bool has_grant_ = false; // the step in hand was granted
  bool stands_behind_ = false; // its wait for another stream's work is in the queue
  policy::CopyEngines copies_ask_{};
  struct {                // the newest launch of a run, not its last one: the run was ended behind it, or goes on
    std::size_t stream = 0;
    std::uint64_t seq = 0;
    std::uint32_t request = 0; // 0: there is none
  } unmarked_;
  std::uint32_t run_ = 0;  // so many launches may pass the closed gate
  bool keeps_runs_ = false;
  std::vector<bool> gap_after_; // by step: the device is often idle then, so the launch gets a mark
  std::uint64_t open_launches_ = 0;
  std::uint32_t marks_ = 0;
  std::uint64_t kernels_in_flight_ = 0;
  std::uint64_t kernels_ = 0;
  std::uint64_t granted_ = 0;
  Request current_;
  std::vector<Request> requests_;
  std::vector<Ran> runs_;
};

} // namespace fikit::simulator
