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
constexpr std::int64_t kQuietSliceNs = 200'000;   // the same when nothing has moved for kQuietNs
constexpr std::int64_t kQuietNs = 5'000'000;
constexpr std::int64_t kLongestSliceNs = 400'000; // the same while the policy knows when it will be over
constexpr std::int64_t kLingerNs = 1'000'000;     // the next request usually follows the last one closely
constexpr std::int64_t kMinKeepingNs = 5'000'000; // house-keeping (rings read before they overflow) while clients run
constexpr std::int64_t kMaxKeepingNs = 700'000'000;
constexpr std::int64_t kRenewals = 5; // in two leases
constexpr std::int64_t kSlackLeases = 3; // but no more than so many before the end of a long one
constexpr std::int64_t kIdleNs = 1'000'000'000; // where nothing has happened for so long, leases are longer
constexpr std::int64_t kIdleLeases = 10;
constexpr std::int64_t kNobodyNs = 3'600'000'000'000; // without clients there is nothing to keep: who comes rings

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
    } // else somebody came before it could know that it has to ring: once more
  }
}

// Decides for the moment at which the pages were read: what was under way then is not over because reading took a while.
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
    tell_higher_what_ran(*client); // a mark may have said it before
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
  if (moved || now_ns >= wake_at_ns_) decide(now_ns);
  if (!turns_.empty()) take_turns(now_ns);
  if (moved) acted_ns_ = now(); // waking a sleeping client may take longer than we spin
  renew_leases(now_ns);
}

// In the order of their times, whoever reported them: who launched first is first in the device's queue. What is reported
// meanwhile by a client that had no more is the next round's.
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

// Nobody waits for a client while every other gate is open: then its launches cost it no mark.
void Dispatcher::tell_clients() {
  closed_ = std::any_of(clients_.begin(), clients_.end(), [](const auto& c) { return c->closed(); });
  lowest_ = 0;
  for (const auto& client : clients_) {
    lowest_ = std::max(lowest_, client->priority());
    const bool awaited = client->awaited_by(closed_);
    const bool takes_turns = std::ranges::find(turns_, client.get()) != turns_.end(); // its turn ends when its last launch is over
    client->ask_for_marks(takes_turns ? 1 : awaited ? marker_interval_ : 0);
    client->set_alone(clients_.size() == 1);
  }
}

// A lease bounds how long a fikitd that hangs holds a launch. Where there has been no launch it may be longer.
std::int64_t Dispatcher::lease_ns(std::int64_t now_ns) const {
  return now_ns - moved_ns_ < kIdleNs ? options_.lease_ns : kIdleLeases * options_.lease_ns;
}

std::int64_t Dispatcher::renewal_ns(std::int64_t now_ns) const {
  const std::int64_t given_ns = std::min(given_ns_, lease_ns(now_ns));
  return coalesced_ns(renewed_ns_, std::max(2 * given_ns / kRenewals, given_ns - kSlackLeases * options_.lease_ns));
}

bool Dispatcher::renew_leases(std::int64_t now_ns) {
  if (now_ns < renewal_ns(now_ns)) return false;
  const bool too_late = now_ns >= renewed_ns_ + given_ns_; // whoever came meanwhile went without a grant, or a bell
  renewed_ns_ = now_ns;
  given_ns_ = lease_ns(now_ns);
  for (const auto& client : clients_) {
    if (!client->closed()) continue;
    client->renew_lease(now_ns + given_ns_);
    if (too_late) read(*client);
  }
  return true;
}

// The longer nothing has happened, the less often is there anything to keep.
std::int64_t Dispatcher::keeping_ns(std::int64_t now_ns) const {
  return clients_.empty() ? kNobodyNs : std::clamp(now_ns - moved_ns_, kMinKeepingNs, kMaxKeepingNs);
}

// Those who wait behind work whose end is reckoned wait for that end. It may come sooner, so half of what is left is slept
// at a time: a reckoning that is wrong is noticed late by no more than that.
std::int64_t Dispatcher::slice_ns(std::int64_t now_ns) const {
  const bool marks = std::any_of(reading_.begin(), reading_.end(), [](const Client* c) { return c->marks_out(); });
  const std::int64_t slice_ns = now_ns - moved_ns_ >= kQuietNs && !marks ? kQuietSliceNs : kSliceNs;
  if (!settled_ || wake_at_ns_ == policy::kNever) return slice_ns;
  return std::max(slice_ns, std::min((wake_at_ns_ - now_ns) / 2, kLongestSliceNs));
}

Dispatcher::Wait Dispatcher::plan(std::int64_t now_ns) const {
  const auto any = [this](auto predicate) { return std::any_of(reading_.begin(), reading_.end(), predicate); };
  const bool unheard = any([](const Client* c) { return c->on_run() || c->undescribed(); }); // these ring for nothing
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

// Only who outranks nobody: copies that others have to expect pass a gate without a bell.
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

// Without the lock, for so long at most; true: somebody rang.
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

// Until a doorbell, or the look that is due. Whoever changes the clients meanwhile rings.
void Dispatcher::sleep(std::unique_lock<std::mutex>& lock, const Wait& wait) {
  std::int64_t until_ns = wait.until_ns;
  while (!stopping_) {
    std::int64_t now_ns = now();
    if (now_ns >= until_ns) {
      if (wait.look == Look::sure || now_ns >= next_back_ns()) return;
      skip_silent(now_ns);
      if (std::any_of(reading_.begin(), reading_.end(), [](Client* c) { return c->has_news(); })) return;
      until_ns = std::min(coalesced_ns(now_ns, keeping_ns(now_ns)), next_back_ns());
    }
    const std::int64_t wake_ns = closed_ ? std::min(until_ns, renewal_ns(now_ns)) : until_ns;
    if (listen(lock, wake_ns - now_ns)) return;
    now_ns = now();
    if (renew_leases(now_ns) && given_ns_ > options_.lease_ns && wait.look == Look::for_news) until_ns = now_ns; // awake anyway
  }
}

} // namespace fikit::dispatcher
