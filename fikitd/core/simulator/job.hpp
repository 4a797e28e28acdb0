// One job of a simulation: a host that lives through its recording again and again, and its streams on the device. It goes at
// its page by the shim's rules (fikit_rules.h), and reports what the shim would.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "costs.hpp"
#include "device_model/device_model.hpp"
#include "job_page.hpp"
#include "note.hpp"
#include "policy/base/copying.hpp"
#include "predictor/model.hpp"
#include "predictor/rhythm.hpp"
#include "predictor/runs.hpp"
#include "reactions.hpp"
#include "replay/host.hpp"
#include "trace.hpp"
#include "truth.hpp"

namespace fikit::simulator {

// What a job did, as it was: nobody but an oracle and a bound sees it.
struct Deed {
  bool wait = false; // its host has waited for all its work until t_ns, from began_ns on; else a launch at t_ns
  std::size_t step = 0;
  std::int64_t t_ns = 0;
  std::int64_t began_ns = 0;
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
  bool tells_ends = true;                    // false: no mark or drain tells of its work's ends, as while a capture is open
  bool fills = true;                         // its memsets and copies within the device are launches: not under MPS
  bool thinks = true;                        // false: its host computes nothing between its calls
  emu::Membership membership;                // what it is to the device: its weight, its MPS priority
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

  // Its page says something new of its gate: if that lets through what stands there, it goes on.
  void look(std::int64_t now_ns);
  JobPage& page() { return page_; }

  int priority() const { return options_.priority; }
  const Trace& trace() const { return *options_.trace; }
  std::int64_t duration_ns(std::size_t step) const { return trace().plan().steps[step].event->duration_ns; }
  const Profile* profile() const { return options_.profile; }
  bool knows_rhythm() const { return options_.profile != nullptr && options_.rhythm; }
  bool knows_runs() const { return options_.profile != nullptr && options_.runs; }
  bool managed() const { return options_.managed; }
  bool fills_launch() const { return fikit_fills_ask(page_.get()); }
  int process() const { return process_; }
  // What the step occupies; compute also where it is no copy between host and device.
  policy::Engine engine(std::size_t step) const;
  std::uint64_t bytes(std::size_t step) const { return trace().plan().steps[step].event->bytes; }
  std::int64_t device_ns() const { return device_.busy_ns(process_); }
  std::int64_t work_ns() const { return device_.work_ns(process_); } // at full speed x demand, of the whole device
  std::uint64_t kernels() const { return kernels_; }
  std::uint64_t granted() const { return granted_; }
  // When the request in hand arrived, or the next one will; kNever: there is none.
  std::int64_t arrival_ns() const { return state_ == State::absent ? kNever : current_.arrival_ns; }
  const std::vector<Request>& requests() const { return requests_; } // that have ended
  bool in_flight() const { return kernels_in_flight_ > 0; } // as far as was collected
  bool at_gate() const { return state_ == State::at_gate || state_ == State::passing; }
  // Of a step that stands at the gate.
  std::size_t step() const { return host_.index(); }
  // What it did since it was made. Kept only on request.
  void keep_deeds() { keeps_deeds_ = true; }
  const std::vector<Deed>& deeds() const { return deeds_; }
  // What ran since the last call, in order of launch within a stream. Kept only on request.
  void keep_runs() { keeps_runs_ = true; }
  const std::vector<Ran>& runs() const { return runs_; }
  void forget_runs() { runs_.clear(); }

 private:
  enum class State : std::uint8_t { absent, calling, at_gate, passing, queue_full, waiting, at_end };
  struct Stream {
    int slot = emu::kNone;
    std::uint64_t collected = 0;
    std::uint64_t issued = 0;  // kernels
    std::uint64_t drained = 0; // of these, as many as its host knows to be complete
    struct Work {
      std::size_t step = 0;
      std::uint64_t issued = 0;   // kernels of the stream, up to this one
      std::uint32_t mark = 0;     // stands behind it; 0: none
      std::uint32_t request = 0;  // whose end is said without a mark once this is complete; 0: none
    };
    std::vector<Work> works; // by sequence number modulo the ring
  };

  struct Place {
    int slot = emu::kNone;
    std::uint64_t seq = 0;
  };

  void next_request(std::int64_t now_ns);
  void call(std::int64_t now_ns);
  void issue(std::int64_t now_ns);
  bool enqueue(const emu::OpRequest& op, std::size_t step);
  void ask(std::int64_t now_ns, std::uint32_t slot, enum fikit_copy copy, std::uint64_t bytes);
  void count_launch(std::int64_t now_ns);
  void mark_launch(std::int64_t now_ns, std::uint64_t seq);
  void report_copy(std::int64_t now_ns);
  void go_on(std::int64_t now_ns);
  void plan_next();
  bool drained() const;
  bool awaited_done() const;
  void waited(std::int64_t now_ns);
  void knows_complete(); // what the step in hand has waited for
  std::uint64_t covers(const Stream& stream) const;
  void complete(Stream& stream, std::int64_t end_ns, std::uint64_t seq);
  Stream& stream_of(std::size_t step) { return streams_[options_.trace->stream(step)]; }
  Stream::Work& newest(const Stream& stream);
  void report(std::int64_t now_ns, enum fikit_entry_kind kind, std::uint32_t slot, std::uint64_t value);
  bool put_mark(Stream& stream, std::int64_t now_ns, enum fikit_entry_kind kind, std::uint64_t value);
  void mark_grant(Stream& stream, std::int64_t now_ns, std::uint32_t request);
  void end_run(std::int64_t now_ns);
  enum fikit_copy copy_of(std::size_t step) const;
  bool launches(std::size_t step) const { return trace().launches(step, fills_launch()); }

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
  std::uint32_t grant_ = 0;    // that the step in hand goes on; 0: its gate was open
  bool stands_behind_ = false; // its wait for another stream's work is in the queue
  JobPage page_;
  struct {
    std::size_t stream = 0;
    std::uint32_t request = 0;
  } unmarked_; // the newest granted launch, if no mark stands behind it; request 0: one does
  std::uint32_t last_mark_ = 0;
  std::atomic<std::uint64_t> marked_ = 0; // launch_seq of the newest mark or drain
  std::uint64_t claimed_ = 0;             // of the newest drain that was reported
  fikit_wait wait_{.seq = UINT64_MAX, .since_ns = 0, .until_ns = 0};
  bool keeps_runs_ = false;
  bool keeps_deeds_ = false;
  std::vector<Deed> deeds_;
  std::uint64_t kernels_in_flight_ = 0;
  std::uint64_t kernels_ = 0;
  std::uint64_t granted_ = 0;
  Request current_;
  std::vector<Request> requests_;
  std::vector<Ran> runs_;
};

} // namespace fikit::simulator
