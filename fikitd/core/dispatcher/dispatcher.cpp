#include "dispatcher.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>

#include "clock.hpp"
#include "timer_coalescing.hpp"

namespace fikit::dispatcher {
namespace {

constexpr std::int64_t kSliceNs = 40'000;         // between looks at the pages while a launch waits
constexpr std::int64_t kQuietSliceNs = 200'000;   // the same when nothing new has come for kQuietNs
constexpr std::int64_t kQuietNs = 5'000'000;
constexpr std::int64_t kLongestSliceNs = 400'000; // the same while the policy knows when the wait will end
constexpr std::int64_t kLingerNs = 1'000'000;     // the next request usually follows the last one closely
constexpr std::int64_t kMinKeepingNs = 5'000'000; // between looks while no launch waits: rings must not overflow
constexpr std::int64_t kMaxKeepingNs = 700'000'000;
constexpr std::int64_t kRenewals = 5; // of a lease, in the time of two
constexpr std::int64_t kSlackLeases = 3; // a long lease is renewed no earlier than so many short ones before its end
constexpr std::int64_t kIdleNs = 1'000'000'000; // leases are longer once nothing new has come for so long
constexpr std::int64_t kIdleLeases = 10;
static_assert(2 * kIdleLeases * policy::kHorizonNs <= FIKIT_MOST_LEASE_NS, "a shim takes a longer lease for none");
constexpr std::int64_t kNobodyNs = 3'600'000'000'000; // without clients: a new one wakes the thread

} // namespace

void Dispatcher::run() {
  pthread_setname_np(pthread_self(), "fikit-dispatch");
  prctl(PR_SET_TIMERSLACK, 1UL); // the default 50 us would be longer than a slice
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    round();
    const Wait wait = plan(now());
    if (wait.look == Look::again) {
      stay_awake();
      listen(lock, 0);
    } else if (fall_asleep()) {
      sleep(lock, wait);
    } // else something came from a client that did not know yet that it has to ring: another round
  }
}

// Decides for the moment at which reading the pages began: work that was running then does not count as over because reading took a while.
void Dispatcher::round() {
  const std::int64_t now_ns = now();
  bool moved = call_back_due(now_ns);
  std::int64_t first_ns = now_ns;
  for (Client* client : reading_) {
    client->end_old_run(now_ns);
    moved |= client->begin_round(now_ns, *policy_);
  }
  take_reports(now_ns);
  for (Client* client : reading_) {
    const bool said = client->end_round(now_ns, *policy_);
    tell_higher_what_ran(*client); // also without a report: a mark may have said it
    if (!said) continue;
    moved = true;
    first_ns = std::min(first_ns, client->first_ns());
    if (client->closed()) gate_moved_ns_ = now_ns;
    if (const std::uint32_t passed = client->take_passed()) tell_higher(*client, passed);
  }
  if (moved) {
    spin_.came_after(first_ns - acted_ns_);
    moved_ns_ = now_ns;
  }
  traffic_.tell(*policy_);
  moved |= see_hosts(now_ns);
  if (moved || now_ns >= wake_at_ns_) decide(now_ns);
  if (!turns_.empty()) take_turns(now_ns);
  if (moved) acted_ns_ = now(); // not now_ns: waking a sleeping client may take longer than the time to spin
  renew_leases(now_ns);
}

// Takes the reports of all clients in the order of their times, which is the order of the launches in the device's queue. What a client
// reports after its last one here was taken belongs to the next round.
void Dispatcher::take_reports(std::int64_t now_ns) {
  std::size_t count = 0;
  for (Client* client : reading_) {
    const std::int64_t t_ns = client->next_report_ns(now_ns);
    if (t_ns != policy::kNever) reporting_[count++] = {.t_ns = t_ns, .client = client};
  }
  while (count > 0) {
    const auto end = reporting_.begin() + static_cast<std::ptrdiff_t>(count);
    Reporting& first = *std::min_element(reporting_.begin(), end, [](auto& a, auto& b) { return a.t_ns < b.t_ns; });
    first.client->take_report(now_ns, *policy_);
    first.t_ns = first.client->next_report_ns(now_ns);
    if (first.t_ns == policy::kNever) first = reporting_[--count];
  }
}

void Dispatcher::decide(std::int64_t now_ns) {
  policy_->decide(now_ns, decisions_);
  wake_at_ns_ = policy::kNever;
  bool gates_moved = false;
  for (const policy::Decision& decision : decisions_.items()) {
    carry_out(decision, now_ns);
    gates_moved |= decision.kind == policy::DecisionKind::open || decision.kind == policy::DecisionKind::close;
  }
  if (gates_moved) tell_clients();
  put_down_holds(now_ns);
}

bool Dispatcher::see_hosts(std::int64_t now_ns) {
  if (now_ns - hosts_ns_ < options_.lease_ns / 2) return false;
  hosts_ns_ = now_ns;
  bool any = false;
  for (const auto& client : clients_) any |= client->see_host(options_.lease_ns, now_ns, *policy_);
  return any;
}

void Dispatcher::put_down_holds(std::int64_t now_ns) {
  settled_ = true;
  policy_->each_held([&](const policy::Client& seen, const policy::WaitReason& why) {
    by_slot_[seen.slot]->held(why, now_ns);
    settled_ &= why.reason == policy::Reason::behind;
  });
}

void Dispatcher::carry_out(const policy::Decision& decision, std::int64_t now_ns) {
  if (decision.kind == policy::DecisionKind::wake_at) {
    wake_at_ns_ = decision.time_ns;
    return;
  }
  Client& target = client(decision.client);
  gate_moved_ns_ = now_ns;
  switch (decision.kind) {
    case policy::DecisionKind::open:
      target.open_gate(now_ns);
      read(target);
      break;
    case policy::DecisionKind::close: target.close_gate(now_ns + lease_ns(now_ns)); break;
    case policy::DecisionKind::ask_copies: target.ask_copies(decision.engines); break;
    case policy::DecisionKind::grant:
      if (target.grant(decision.request, decision.launches, now_ns)) tell_higher(target, 1);
      break;
    case policy::DecisionKind::extend_run: target.extend_run(decision.launches); break;
    case policy::DecisionKind::end_run: target.end_run(); break;
    case policy::DecisionKind::wake_at: break;
  }
}

void Dispatcher::tell_higher(const Client& lower, std::uint32_t kernels) {
  for (const auto& other : clients_)
    if (!other->measuring() && other->priority() < lower.priority()) other->kernels_of_other(kernels);
}

void Dispatcher::tell_higher_what_ran(Client& lower) {
  const std::span<const Ran> ran = lower.take_ran();
  if (ran.empty() || lower.measuring()) return;
  for (const auto& other : clients_)
    if (!other->measuring() && other->priority() < lower.priority()) other->lower_ran(lower.id(), ran);
}

// While every other gate is open, no client waits for this one's progress, so that its launches need no marks.
void Dispatcher::tell_clients() {
  closed_ = std::any_of(clients_.begin(), clients_.end(), [](const auto& c) { return c->closed(); });
  lowest_ = 0;
  // Whose memory is elsewhere while that of others has its turn launches nothing: it is as if it were not there.
  const auto there = [this](const auto& c) { return !c->away() || busy(*c); };
  const auto count = std::count_if(clients_.begin(), clients_.end(), there);
  for (const auto& client : clients_) {
    lowest_ = std::max(lowest_, client->priority());
    const bool awaited = client->awaited_by(closed_);
    const bool takes_turns = std::ranges::find(turns_, client.get()) != turns_.end(); // a turn ends when the client's last launch is complete, and a mark tells
    client->ask_for_marks(takes_turns ? 1 : awaited ? marker_interval_ : 0);
    client->set_alone(count == (there(client) ? 1 : 0));
  }
}

// A lease bounds for how long a fikitd that hangs holds a launch. It may be longer while there are no launches.
std::int64_t Dispatcher::lease_ns(std::int64_t now_ns) const {
  return now_ns - moved_ns_ < kIdleNs ? options_.lease_ns : kIdleLeases * options_.lease_ns;
}

std::int64_t Dispatcher::renewal_ns(std::int64_t now_ns) const {
  const std::int64_t given_ns = std::min(given_ns_, lease_ns(now_ns));
  return coalesced_ns(renewed_ns_, std::max(2 * given_ns / kRenewals, given_ns - kSlackLeases * options_.lease_ns));
}

bool Dispatcher::renew_leases(std::int64_t now_ns) {
  if (now_ns < renewal_ns(now_ns)) return false;
  const bool too_late = now_ns >= renewed_ns_ + given_ns_; // launches may have passed meanwhile, without grant and without doorbell
  renewed_ns_ = now_ns;
  given_ns_ = lease_ns(now_ns);
  for (const auto& client : clients_) {
    if (!client->closed()) continue;
    client->renew_lease(now_ns + given_ns_);
    if (too_late) read(*client);
  }
  return true;
}

// The longer nothing new has come, the rarer are the looks.
std::int64_t Dispatcher::keeping_ns(std::int64_t now_ns) const {
  return clients_.empty() ? kNobodyNs : std::clamp(now_ns - moved_ns_, kMinKeepingNs, kMaxKeepingNs);
}

// Where a launch waits for work whose end is reckoned, the thread sleeps for half of the time that is left, again and again: if the work
// ends sooner, that is noticed late by no more than so much.
std::int64_t Dispatcher::slice_ns(std::int64_t now_ns) const {
  const bool marks = std::any_of(reading_.begin(), reading_.end(), [](const Client* c) { return c->marks_out(); });
  const std::int64_t slice_ns = now_ns - moved_ns_ >= kQuietNs && !marks ? kQuietSliceNs : kSliceNs;
  if (!settled_ || wake_at_ns_ == policy::kNever) return slice_ns;
  return std::max(slice_ns, std::min((wake_at_ns_ - now_ns) / 2, kLongestSliceNs));
}

Dispatcher::Wait Dispatcher::plan(std::int64_t now_ns) const {
  const auto any = [this](auto predicate) { return std::any_of(reading_.begin(), reading_.end(), predicate); };
  const bool unheard = any([](const Client* c) { return c->on_run() || c->undescribed(); }); // these clients do not ring
  const bool waiting = any([](const Client* c) { return c->waiting(); });
  const bool soon = waiting || unheard || (closed_ && now_ns - gate_moved_ns_ < kLingerNs);
  if (soon && now_ns - acted_ns_ < spin_.limit_ns()) return {.look = Look::again};
  if (unheard) return {.look = Look::sure, .until_ns = std::min(now_ns + kSliceNs, std::max(wake_at_ns_, now_ns))};
  if (waiting) return {.look = Look::sure, .until_ns = std::min(now_ns + slice_ns(now_ns), std::max(wake_at_ns_, now_ns))};
  return {.look = Look::for_news, .until_ns = std::min(coalesced_ns(now_ns, keeping_ns(now_ns)), next_back_ns())};
}

void Dispatcher::read(Client& client) {
  client.heard(now());
  if (std::find(reading_.begin(), reading_.end(), &client) != reading_.end()) return;
  reading_.push_back(&client);
  client.set_awake(awake_);
}

// Only clients of the lowest priority: the copies of higher ones, which lower clients' copies are planned around, pass the gate without a
// doorbell.
void Dispatcher::skip_silent(std::int64_t now_ns) {
  if (!awake_) std::erase_if(reading_, [&](Client* c) { return c->priority() == lowest_ && c->silent(now_ns); });
}

void Dispatcher::stay_awake() {
  if (awake_) return;
  awake_ = true;
  for (Client* client : reading_) client->set_awake(true);
}

// Asks for doorbells, then looks once more: a client that posted before it could see `awake` = 0 is seen here.
bool Dispatcher::fall_asleep() {
  if (!awake_) return true;
  awake_ = false;
  for (Client* client : reading_) client->set_awake(false);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return std::none_of(reading_.begin(), reading_.end(), [](const Client* c) { return c->cannot_wait(); });
}

// Waits without the lock, for so long at most; true: a doorbell rang.
bool Dispatcher::listen(std::unique_lock<std::mutex>& lock, std::int64_t timeout_ns) {
  const bool all_read = reading_.size() == clients_.size();
  lock.unlock();
  if (timeout_ns == 0) std::this_thread::yield();
  const bool rung = !(timeout_ns == 0 && all_read) && doorbells_.wait(timeout_ns);
  lock.lock();
  for (std::size_t i = 0; rung && i < doorbells_.rung().size(); ++i)
    if (Client* client = by_slot_[doorbells_.rung()[i]]) read(*client);
  return rung;
}

// Until a doorbell rings or the next look is due. A thread that changes the clients meanwhile rings too.
void Dispatcher::sleep(std::unique_lock<std::mutex>& lock, const Wait& wait) {
  std::int64_t until_ns = wait.until_ns;
  while (!stopping_) {
    std::int64_t now_ns = now();
    if (now_ns >= until_ns) {
      if (wait.look == Look::sure || now_ns >= next_back_ns()) return;
      skip_silent(now_ns);
      if (see_hosts(now_ns) || std::any_of(reading_.begin(), reading_.end(), [](Client* c) { return c->has_news(); })) return;
      until_ns = std::min(coalesced_ns(now_ns, keeping_ns(now_ns)), next_back_ns());
    }
    const std::int64_t wake_ns = closed_ ? std::min(until_ns, renewal_ns(now_ns)) : until_ns;
    if (listen(lock, wake_ns - now_ns)) return;
    now_ns = now();
    if (renew_leases(now_ns) && given_ns_ > options_.lease_ns && wait.look == Look::for_news) until_ns = now_ns; // awake anyway
  }
}

} // namespace fikit::dispatcher
