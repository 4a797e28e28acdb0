#include "client.hpp"

#include <utility>

#include "clock.hpp"
#include "host_stop.hpp"

namespace fikit::dispatcher {
namespace {

constexpr int kBatch = 512; // reports of one client per round, so that a busy client does not delay the others

} // namespace

Client::Client(ClientId id, int memfd, int priority, bool measure, const policy::Options& options, std::int64_t now_ns,
               Traffic& traffic, std::shared_ptr<Gang> gang, std::shared_ptr<Siblings> siblings, std::size_t journal,
               std::shared_ptr<predictor::Room> room, bool overlaps, int pid)
    : priority_(priority),
      page_(memfd),
      tracker_({.id = id,
                .priority = priority,
                .measure = measure,
                .overlaps = overlaps,
                .gang = std::move(gang),
                .siblings = std::move(siblings),
                .journal = journal,
                .room = std::move(room)},
               page_, options, now_ns, traffic),
      heard_ns_(now_ns),
      pid_(pid) {
  page_.watch_host(pid);
}

Client::~Client() { tracker_.leave(now()); }

void Client::resume() {
  page_.open_gate();
  page_.end_run();
  page_.resume_goal();
  page_.plan().resume(now());
  ring_.begin_at_end(page_.raw());
  page_.set_ring_tail(ring_.tail());
  tracker_.resume(page_.launches());
}

bool Client::cannot_wait() const {
  const tracking::Request request = page_.request();
  const bool kept = away() && request.engine == policy::Engine::compute;
  return ring_.half_full(page_.raw()) || (!kept && tracker_.is_news(request));
}

bool Client::has_news() {
  return has_next_ || !ring_.empty(page_.raw()) || tracker_.marks_out() || tracker_.has_run() || tracker_.gang_news(now());
}

bool Client::silent(std::int64_t now_ns) {
  constexpr std::int64_t kSilentNs = 5'000'000; // a thread that saw the gate open has launched by then
  return closed() && now_ns - heard_ns_ >= kSilentNs && !waiting() && !undescribed_ && !tracker_.owes_launch() && !has_news();
}

bool Client::begin_round(std::int64_t now_ns, policy::Policy& policy) {
  tracker_.begin_round(now_ns);
  taken_ = 0;
  return tracker_.look_at_marks(now_ns, policy); // marks come before the launches behind them
}

std::int64_t Client::next_report_ns(std::int64_t now_ns) {
  if (taken_ == kBatch) return policy::kNever;
  if (!has_next_) has_next_ = ring_.next(page_.raw(), now_ns, next_);
  if (!has_next_ || waits_for_description(now_ns)) return policy::kNever;
  return tracker_.time_of(next_, now_ns);
}

// After a launch of unknown length the client's progress is uncertain until all its work so far is complete. So it is worth a short wait.
bool Client::waits_for_description(std::int64_t now_ns) {
  const bool launch = next_.kind == FIKIT_ENTRY_LAUNCH || next_.kind == FIKIT_ENTRY_EXPIRED;
  return patient_ && has_next_ && launch && tracker_.describes_soon(next_.slot, next_.t_ns, now_ns);
}

void Client::take_report(std::int64_t now_ns, policy::Policy& policy) {
  if (ring_.take_lost()) tracker_.lost_reports(page_.launches(), policy);
  tracker_.take(next_, now_ns, policy);
  has_next_ = false;
  ++taken_;
}

bool Client::end_round(std::int64_t now_ns, policy::Policy& policy) {
  bool any = taken_ > 0;
  if (any) page_.set_ring_tail(ring_.tail());
  any = tracker_.look_at_marks(now_ns, policy) || any;
  any = tracker_.look_at_gang(now_ns, policy) || any;
  undescribed_ = waits_for_description(now_ns);
  if (!undescribed_) { // else the launches before the request are not taken yet
    const policy::WaitReason hold{.reason = policy::Reason::memory, .by = id()};
    any = (away() ? tracker_.keep_request(page_.request(), hold, patient_, now_ns, policy)
                  : tracker_.look_at_request(page_.request(), patient_, now_ns, policy)) ||
          any;
    undescribed_ = tracker_.undescribed();
  }
  if (any) heard_ns_ = now_ns;
  return any;
}

bool Client::poll(std::int64_t now_ns, policy::Policy& policy) {
  patient_ = false;
  const bool marks = begin_round(now_ns, policy);
  while (next_report_ns(now_ns) != policy::kNever) take_report(now_ns, policy);
  const bool any = end_round(now_ns, policy);
  patient_ = true;
  return any || marks;
}

void Client::open_gate(std::int64_t now_ns) {
  opens_ = true;
  if (away()) return;
  tracker_.gate_opened(now_ns);
  page_.open_gate();
}

void Client::close_gate(std::int64_t until_ns) {
  opens_ = false;
  tracker_.gate_closed();
  page_.close_gate(until_ns);
}

void Client::send_away(std::int64_t until_ns, std::int64_t lease_until_ns) {
  if (!away()) {
    tracker_.end_run();
    if (!closed()) {
      tracker_.gate_closed();
      page_.close_gate(lease_until_ns);
    }
  }
  away_until_ns_ = until_ns;
}

void Client::call_back(std::int64_t now_ns) {
  if (!away()) return;
  away_until_ns_ = 0;
  if (opens_) open_gate(now_ns);
}

void Client::ask_for_marks(std::uint32_t every) {
  if (every != marks_asked_) page_.set_marker_interval(every);
  marks_asked_ = every;
}

bool Client::see_host(std::int64_t look_ns, std::int64_t now_ns, policy::Policy& policy) {
  if (now_ns - std::max(heard_ns_, looked_ns_) < look_ns) return false;
  looked_ns_ = now_ns;
  const bool stood = stands();
  tracker_.see_host(is_stopped(pid_), heard_ns_, now_ns, policy);
  return stands() != stood;
}

bool Client::read_accesses(Touching& into, std::size_t launches) const {
  const predictor::Accesses* accesses = tracker_.accesses();
  if (accesses == nullptr) return true;
  into.latest_ns = accesses->latest_ns();
  return accesses->read(into.reading, launches);
}

std::optional<InPass> Client::iteration() const {
  const predictor::Accesses* accesses = tracker_.accesses();
  const predictor::Iteration* now = accesses == nullptr ? nullptr : accesses->now();
  if (now == nullptr || accesses->step() > accesses->waited_at()) return {};
  return InPass{.path = now->path,
                .launches = now->steps.size(),
                .first_launch = accesses->waited_at() - accesses->step() + 1,
                .latest_ns = accesses->latest_ns()};
}

Stats Client::stats(std::int64_t now_ns) const {
  Stats stats = tracker_.stats(page_.counters(now_ns), page_.slot_launches(), now_ns);
  stats.moves = page_.moves();
  stats.heard_ns = heard_ns_;
  return stats;
}

} // namespace fikit::dispatcher
