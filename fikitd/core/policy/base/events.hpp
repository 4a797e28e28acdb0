// What a policy is told and what it answers: events, decisions, and the options with which it is made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "clients.hpp"
#include "copying.hpp"
#include "residual_time.hpp"
#include "tuning.hpp"

namespace fikit::policy {

// What a client would do if it were alone, as the predictor knows it; policies do not reckon it again. The word before each colon is the
// event that has the field. A "wait": the host waits for all its work; what it launches between two waits is a segment.
struct Outlook {
  std::int64_t alone_dry_ns = kLongAgo; // launched: when all would be complete that the client has launched since its last wait
  std::int64_t alone_end_ns = kLongAgo; // drained: when the wait would have ended; how much later it ended is the delay
  // launched: for how long the device would be idle between the end of this launch and the end of the next wait. drained: the same for
  // the next segment, from its first launch on.
  TimeQuantiles slack;
  TimeQuantiles idle;                      // drained: until the next launch; copied: until the next copy in that direction
  std::int64_t span_ns = kUnknown; // drained: from the first launch of the segment to the end of this wait, at most
  std::int64_t tail_ns = kUnknown; // drained: from the segment's last launch to the end of this wait, at least
  // drained: how much later than the work's reckoned end and than its own beginning the wait ends, alone; negative where the work is
  // reckoned too long; kLongAgo: unknown
  std::int64_t after_ns = kLongAgo;
  // drained: until the next launch while no other client is on the device, at most; kUnknown unless that is always about as long
  std::int64_t alone_idle_ns = kUnknown;
  std::int64_t high_ns = kUnknown; // waiting: nine of ten kernels like this one take no longer
  std::int64_t feared_ns = kUnknown; // waiting: kernels like this one spend a tenth of their time in runs of this length or longer
  std::int64_t longest_ns = kUnknown; // waiting: the longest one like this one that was seen
  std::int64_t run_longer_ns = 0; // waiting: by how much a kernel behind this one may take longer than predicted, at the longest seen
  std::int64_t in_line_ns = 0;     // launched: what the device needs before this launch if it stands in line
  // waiting, launched on a grant: this launch and those that are likely to follow it without a wait.
  Launches run;
  Launches long_run; // the same where all clients above are at rest; never less
  bool open = false;               // drained: the next launch follows sometimes at once, sometimes long after: requests
                                   // come from outside, and may be waiting already
};

struct Options {
  std::int64_t lease_ns = 100'000'000;    // how long silence, or work of unknown length, may hold others
  std::int64_t min_gap_ns = 20'000;       // lower clients do not fill a gap of which less than this is left
  std::int64_t run_ahead_ns = 500'000;    // the most predicted work of lower clients in flight while a higher client is idle
  std::int64_t idle_after_ns = 2'000'000; // a client counts as idle when its gap has lasted so much longer than predicted
  Protection protection{};                // of a client that asks for none of its own
  Tuning tuning{};
  std::int64_t starvation_timeout_ns = 1'000'000'000; // a request that has waited so long is served next, whatever it costs
};

enum class EventKind : std::uint8_t {
  client_added,    // priority, measuring, overlaps, user, job, protection
  client_removed,
  profiled,        // outlook.slack: the least slack of any segment's first launch in the client's profile
  launched,        // duration_ns, gap_ns; granted and request when the launch went through a closed gate
  waiting,         // request, engine, duration_ns: a launch, or a copy, stands at a closed gate
  copied,          // engine, outlook.idle: a copy was handed to the device
  waiting_ended,   // the client gave the request up
  drained,         // waited; duration_ns: predicted work still queued at time_ns, 0 = the queue ran dry; since_ns: when it was not so;
                   // spread_ns: by how much the predictions behind the reckoning may well be exceeded
  running,         // work before the last duration_ns of predicted work is still under way at time_ns
  grant_done,      // request: this granted kernel, and those before it, have completed
  host_stands,     // stands: the client's host is stopped, since since_ns (a signal, a debugger, a frozen control group); false: it goes on
  exclusive_runs,  // exclusive: a kernel that waits for others of its job is on a device now; false: no longer
  tick,
};
// Their names in tests and in policies that are written in Python.
inline constexpr std::array<std::string_view, 13> kEventNames{
    "client_added",  "client_removed", "profiled", "launched",   "waiting",        "copied",
    "waiting_ended", "drained",        "running",  "grant_done", "host_stands", "exclusive_runs", "tick"};
static_assert(kEventNames.size() == static_cast<std::size_t>(EventKind::tick) + 1);

struct Event {
  EventKind kind = EventKind::tick;
  ClientId client = 0;
  std::int64_t time_ns = 0;
  std::int64_t since_ns = kLongAgo;
  std::int64_t spread_ns = kUnknown;
  bool waited = true; // drained: the client's host has waited for it; false: only fikitd knows
  std::int64_t began_ns = kLongAgo; // drained, waited: when the host began to wait, if the client reports it
  int priority = 5; // 0 (highest) to 9
  bool measuring = false;
  bool overlaps = false; // client_added: see Client
  std::uint64_t user = 0; // client_added: see Client
  std::uint64_t job = 0;
  std::optional<Protection> protection{}; // client_added
  bool granted = false;
  bool stands = false; // host_stands
  bool exclusive = false; // waiting: the kernel waits for others like itself once it runs (cooperative, collective)
  std::uint32_t request = 0;
  Engine engine = Engine::compute; // a copy engine: the event is about a copy
  std::int64_t duration_ns = kUnknown;
  std::int64_t gap_ns = kUnknown; // predicted idle time after this launch, until the client's next one
  Outlook outlook{};
};

enum class DecisionKind : std::uint8_t {
  open,
  close,
  ask_copies, // at the closed gate, long copies for these engines have to ask; other copies pass
  grant,   // the request, and the launches - 1 that follow it, may go
  extend_run, // so many more launches may follow those of the newest grant
  end_run, // no further launch of the newest grant may go
  wake_at,
};
inline constexpr std::array<std::string_view, 7> kDecisionNames{"open",       "close",   "ask_copies", "grant",
                                                                "extend_run", "end_run", "wake_at"};
static_assert(kDecisionNames.size() == static_cast<std::size_t>(DecisionKind::wake_at) + 1);

struct Decision {
  DecisionKind kind = DecisionKind::wake_at;
  ClientId client = 0;
  std::uint32_t request = 0;  // grant
  std::uint32_t launches = 1; // grant, extend_run
  CopyEngines engines{};      // ask_copies
  std::int64_t time_ns = 0;   // wake_at: call decide() then, if no event comes first
};

// Room for the most that one decide() can answer: for each client one gate change, one ask_copies, one grant, one extend_run and one
// end_run; and one wake_at.
class Decisions {
 public:
  void clear() { size_ = 0; }
  void add(const Decision& decision) { items_[size_++] = decision; }
  std::span<const Decision> items() const { return {items_.data(), size_}; }

 private:
  std::array<Decision, 5 * kMaxClients + 1> items_{};
  std::size_t size_ = 0;
};

} // namespace fikit::policy
