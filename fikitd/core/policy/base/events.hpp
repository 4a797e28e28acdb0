// What is said to a policy and what it says: events, decisions, and the options that it is made with.
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

// What a client would do if it were alone, as far as it is known: the predictor's word, which policies do not reckon again. "Wait":
// the host waits for all its work; what is launched between two waits is a segment.
struct Outlook {
  std::int64_t alone_dry_ns = kLongAgo; // launched: then all that was launched since the last wait would be done
  std::int64_t alone_end_ns = kLongAgo; // drained: then the wait would have ended; what it ended later is a delay
  // launched: for so long would the device be idle from the end of this launch to the end of the next wait, if it were due
  // by then anyway. drained: the same for the next segment, from its first launch on.
  TimeQuantiles slack;
  TimeQuantiles idle;                      // drained: until the next launch; copied: until the next copy in that direction
  std::int64_t span_ns = kUnknown; // drained: from the first launch of the segment to the end of this wait, at most
  std::int64_t tail_ns = kUnknown; // drained: from its last launch on, at least
  // drained: alone, the wait ends so much later than the work, as reckoned, and its own beginning; negative where the work is
  // reckoned too long; kLongAgo: unknown
  std::int64_t after_ns = kLongAgo;
  // drained: until the next launch where nobody else is on the device, if it is always about as long: at most
  std::int64_t alone_idle_ns = kUnknown;
  std::int64_t high_ns = kUnknown; // waiting: nine of ten kernels like this one take no longer
  std::int64_t in_line_ns = 0;     // launched: what the device needs before it when it stands in line
  // waiting, launched on a grant: these are likely to follow each other without a wait, this one the first.
  Launches run;
  Launches long_run; // for when all those above are at rest; never less
  bool open = false;               // drained: sometimes the next launch follows at once, sometimes long after: requests
                                   // come from outside, and may be waiting already
};

struct Options {
  std::int64_t lease_ns = 100'000'000;    // how long silence, or work of unknown length, may hold others
  std::int64_t min_gap_ns = 20'000;       // gaps with less than this left are not filled
  std::int64_t run_ahead_ns = 500'000;    // predicted lower-priority work in flight while the holder is idle
  std::int64_t idle_after_ns = 2'000'000; // a gap that outlasts its prediction by this makes its client idle
  Protection protection{};                // of a client that does not say it itself
  Tuning tuning{};
  std::int64_t starvation_timeout_ns = 1'000'000'000; // a request that has waited so long is served next, whatever it costs
};

enum class EventKind : std::uint8_t {
  client_added,    // priority, measuring, protection
  client_removed,
  profiled,        // outlook.slack: of the first launch of any segment, as far as its profile says; the least
  launched,        // duration_ns, gap_ns; granted and request when it went through a closed gate
  waiting,         // request, engine, duration_ns: a launch, or a copy, stands at a closed gate
  copied,          // engine, outlook.idle: a copy was handed to the device
  waiting_ended,   // the client gave the request up
  drained,         // waited; duration_ns: predicted work still queued at time_ns, 0 = the queue ran dry; since_ns: when it was not so;
                   // spread_ns: by how much the predictions behind the reckoning may well be exceeded
  running,         // work before the last duration_ns of predicted work is still under way at time_ns
  grant_done,      // request: this granted kernel, and those before it, have completed
  exclusive_runs,  // exclusive: a kernel that waits for others of its job is on a device now, or (false) none is any more
  tick,
};
// As tests and policies written in Python know them.
inline constexpr std::array<std::string_view, 12> kEventNames{
    "client_added",  "client_removed", "profiled", "launched",   "waiting",        "copied",
    "waiting_ended", "drained",        "running",  "grant_done", "exclusive_runs", "tick"};
static_assert(kEventNames.size() == static_cast<std::size_t>(EventKind::tick) + 1);

struct Event {
  EventKind kind = EventKind::tick;
  ClientId client = 0;
  std::int64_t time_ns = 0;
  std::int64_t since_ns = kLongAgo;
  std::int64_t spread_ns = kUnknown;
  bool waited = true; // drained: the client's host knows it; false: only we do
  std::int64_t began_ns = kLongAgo; // drained, waited: since when the host has waited, as far as it says so
  int priority = 5; // 0 (highest) to 9
  bool measuring = false;
  std::optional<Protection> protection{}; // client_added
  bool granted = false;
  bool exclusive = false; // waiting: the kernel waits for others like itself once it runs (cooperative, collective)
  std::uint32_t request = 0;
  Engine engine = Engine::compute; // another one: it is about a copy
  std::int64_t duration_ns = kUnknown;
  std::int64_t gap_ns = kUnknown; // predicted idle time after this launch, until the client's next one
  Outlook outlook{};
};

enum class DecisionKind : std::uint8_t {
  open,
  close,
  ask_copies, // long copies for these engines ask at the closed gate, others pass
  grant,   // the request, and the launches - 1 that follow it, may go
  extend_run, // so many launches more may follow those of the newest grant
  end_run, // of these, none may go any more
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

// Room for the most that one decide() can say: one gate change, one word on copies, one grant, one longer run and the end of one
// per client, one wake_at.
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
