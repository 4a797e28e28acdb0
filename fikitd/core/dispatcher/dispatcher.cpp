#include "dispatcher.hpp"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

namespace fikit::dispatcher {
namespace {

constexpr std::int64_t kSliceNs = 40'000;         // between looks at the pages while a launch waits
constexpr std::int64_t kQuietSliceNs = 200'000;   // the same when nothing has moved for kQuietNs
constexpr std::int64_t kQuietNs = 5'000'000;
constexpr std::int64_t kLongestSliceNs = 400'000; // the same while the policy knows when it will be over
constexpr std::int64_t kLingerNs = 1'000'000;     // the next request usually follows the last one closely
constexpr std::int64_t kMinKeepingNs = 5'000'000; // house-keeping (rings read before they overflow) while clients run
constexpr std::int64_t kMaxKeepingNs = 700'000'000;
constexpr std::int64_t kMinLeaseNs = 5'000'000;
constexpr std::int64_t kRenewals = 5; // in two leases
constexpr std::int64_t kSlackLeases = 3; // but no more than so many before the end of a long one
constexpr std::int64_t kIdleNs = 1'000'000'000; // where nothing has happened for so long, leases are longer
constexpr std::int64_t kIdleLeases = 10;
constexpr std::size_t kMaxTraceEvents = std::size_t{1} << 20;

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void check(const policy::Protection& protection) {
  if (!(protection.max_slowdown >= 0 && protection.max_slowdown <= 1))
    throw std::invalid_argument("max_slowdown must be between 0 and 1");
  if (protection.max_delay_ns < 0) throw std::invalid_argument("max_delay_ns must not be negative");
}

void check(const policy::Options& options, std::int64_t spin_ns) {
  check(options.protection);
  if (options.ageing_ns < 0) throw std::invalid_argument("ageing_ns must not be negative");
  if (options.lease_ns < kMinLeaseNs || options.lease_ns > policy::kHorizonNs)
    throw std::invalid_argument("lease_ns must be between 5 ms and 10 s");
  for (const std::int64_t ns : {options.epsilon_ns, options.run_ahead_ns, options.idle_after_ns, spin_ns})
    if (ns < 0 || ns > policy::kHorizonNs) throw std::invalid_argument("times must be between 0 and 10 s");
}

} // namespace

Dispatcher::Dispatcher(std::string_view policy, const policy::Options& options, std::int64_t spin_ns,
                       std::uint32_t mark_every, std::size_t trace_events)
    : options_(options),
      spin_(spin_ns),
      mark_every_(mark_every),
      policy_(policy::make_policy(policy, options)),
      trace_events_(trace_events) {
  if (policy_ == nullptr)
    throw std::invalid_argument(policy::unknown_policy(policy));
  check(options, spin_ns);
  if (trace_events > kMaxTraceEvents) throw std::invalid_argument("trace_events must be at most 1048576");
  reading_.reserve(policy::kMaxClients);
  moved_ns_ = now();
  thread_ = std::thread([this] { run(); });
}

Dispatcher::~Dispatcher() { stop(); }

void Dispatcher::add_client(ClientId id, int memfd, int doorbell, int priority, bool measure,
                            std::optional<double> max_slowdown, std::optional<std::int64_t> max_delay_ns,
                            std::uint64_t gang, bool resume) {
  if (priority < 0 || priority > 9) throw std::invalid_argument("priority must be 0 (highest) to 9");
  const policy::Protection protection{.max_slowdown = max_slowdown.value_or(options_.protection.max_slowdown),
                                      .max_delay_ns = max_delay_ns.value_or(options_.protection.max_delay_ns)};
  check(protection);
  const std::lock_guard lock(mutex_);
  if (stopping_) throw std::runtime_error("the dispatcher has been stopped");
  if (policy_->client(id) != nullptr) throw std::invalid_argument("this client id is in use");
  const std::int64_t now_ns = now();
  auto added = std::make_unique<Client>(id, memfd, priority, measure, options_, now_ns, traffic_, Gang::of(gang),
                                        trace_events_);
  if (resume) added->resume();
  if (!policy_->apply({.kind = policy::EventKind::client_added,
                       .client = id,
                       .time_ns = now_ns,
                       .priority = priority,
                       .measuring = measure,
                       .protection = protection}))
    throw std::runtime_error("this GPU already has " + std::to_string(policy::kMaxClients) + " clients");
  const std::size_t slot = policy_->client(id)->slot;
  try {
    doorbells_.add(slot, doorbell);
  } catch (...) {
    policy_->apply({.kind = policy::EventKind::client_removed, .client = id, .time_ns = now_ns});
    throw;
  }
  by_slot_[slot] = added.get();
  clients_.push_back(std::move(added));
  read(*clients_.back());
  decide(now());
  tell_clients();
  doorbells_.ring_own();
}

Stats Dispatcher::remove_client(ClientId id) {
  const std::lock_guard lock(mutex_);
  Client& leaving = client(id);
  const std::int64_t now_ns = now();
  while (leaving.poll(now_ns, *policy_) && now() - now_ns < kQuietNs) { // its last words
  }
  Stats stats = leaving.stats(now());
  leaving.open_gate(now());
  const std::size_t slot = policy_->client(id)->slot;
  doorbells_.remove(slot);
  by_slot_[slot] = nullptr;
  std::erase(reading_, &leaving);
  policy_->apply({.kind = policy::EventKind::client_removed, .client = id, .time_ns = now()});
  std::erase_if(clients_, [id](const auto& c) { return c->id() == id; });
  decide(now());
  tell_clients();
  doorbells_.ring_own();
  return stats;
}

void Dispatcher::set_profile(ClientId id, predictor::Model profile, const foresight::Learnt& before) {
  const std::lock_guard lock(mutex_);
  client(id).set_profile(std::move(profile), before);
}

void Dispatcher::describe(ClientId id, std::uint32_t slot, const predictor::Kernel& kernel) {
  if (slot == 0 || slot >= FIKIT_SLOTS) throw std::invalid_argument("kernel slot out of range");
  const std::lock_guard lock(mutex_);
  client(id).describe(slot, kernel);
}

Stats Dispatcher::stats(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).stats(now());
}

predictor::Model Dispatcher::measured(ClientId id) {
  const std::lock_guard lock(mutex_);
  Client& measuring = client(id);
  const std::int64_t now_ns = now();
  while (measuring.poll(now_ns, *policy_) && now() - now_ns < kQuietNs) { // what it just wrote
  }
  return measuring.measured();
}

foresight::Learnt Dispatcher::learnt(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).learnt();
}

std::vector<Idle> Dispatcher::idle_moments(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).idle_moments();
}

Dispatcher::Story Dispatcher::journal(ClientId id) {
  const std::lock_guard lock(mutex_);
  Client& told = client(id);
  const std::int64_t now_ns = now();
  while (told.poll(now_ns, *policy_) && now() - now_ns < kQuietNs) { // what it just wrote
  }
  return {.events = told.journal().events(), .lost = told.journal().lost(), .kernels = told.kernel_names()};
}

void Dispatcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    doorbells_.ring_own();
  }
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  for (const auto& client : clients_) client->open_gate(now());
}

Client& Dispatcher::client(ClientId id) {
  const auto it = std::find_if(clients_.begin(), clients_.end(), [id](const auto& c) { return c->id() == id; });
  if (it == clients_.end()) throw std::out_of_range("no such client");
  return **it;
}

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
  bool moved = false;
  std::int64_t first_ns = now_ns;
  for (Client* client : reading_) {
    client->end_old_run(now_ns);
    moved |= client->begin_round(now_ns, *policy_);
  }
  take_reports(now_ns);
  for (Client* client : reading_) {
    if (!client->end_round(now_ns, *policy_)) continue;
    moved = true;
    first_ns = std::min(first_ns, client->first_ns());
    if (client->closed()) gate_moved_ns_ = now_ns;
    if (const std::uint32_t passed = client->take_passed()) tell_higher(*client, passed);
  }
  if (moved) {
    spin_.came_after(first_ns - acted_ns_);
    moved_ns_ = now_ns;
  }
  if (moved || now_ns >= wake_at_ns_) decide(now_ns);
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
  for (const policy::Client& seen : std::as_const(*policy_).all()) {
    if (!seen.at_gate()) continue;
    by_slot_[seen.slot]->held(seen.held, now_ns);
    settled_ &= seen.held.reason == policy::Reason::behind;
  }
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

// Nobody waits for a client while every other gate is open: then its launches cost it no mark.
void Dispatcher::tell_clients() {
  closed_ = std::any_of(clients_.begin(), clients_.end(), [](const auto& c) { return c->closed(); });
  lowest_ = 0;
  for (const auto& client : clients_) {
    lowest_ = std::max(lowest_, client->priority());
    client->ask_for_marks(closed_ && !client->closed() && !client->measuring() ? mark_every_ : 0);
    client->set_alone(clients_.size() == 1);
  }
}

// A lease bounds how long a fikitd that hangs holds a launch. Where there has been no launch it may be longer.
std::int64_t Dispatcher::lease_ns(std::int64_t now_ns) const {
  return now_ns - moved_ns_ < kIdleNs ? options_.lease_ns : kIdleLeases * options_.lease_ns;
}

std::int64_t Dispatcher::renewal_ns(std::int64_t now_ns) const {
  const std::int64_t given_ns = std::min(given_ns_, lease_ns(now_ns));
  return renewed_ns_ + std::max(2 * given_ns / kRenewals, given_ns - kSlackLeases * options_.lease_ns);
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
  return clients_.empty() ? policy::kHorizonNs : std::clamp(now_ns - moved_ns_, kMinKeepingNs, kMaxKeepingNs);
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
  return {.look = Look::for_news, .until_ns = now_ns + keeping_ns(now_ns)};
}

void Dispatcher::read(Client& client) {
  client.heard(now());
  if (std::find(reading_.begin(), reading_.end(), &client) != reading_.end()) return;
  reading_.push_back(&client);
  client.set_awake(awake_);
}

// Only who outranks nobody: copies that others have to expect pass a gate without a bell.
void Dispatcher::skip_silent(std::int64_t now_ns) {
  if (!awake_) std::erase_if(reading_, [&](const Client* c) { return c->priority() == lowest_ && c->silent(now_ns); });
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
      if (wait.look == Look::sure) return;
      skip_silent(now_ns);
      if (std::any_of(reading_.begin(), reading_.end(), [](const Client* c) { return c->has_news(); })) return;
      until_ns = now_ns + keeping_ns(now_ns);
    }
    const std::int64_t wake_ns = closed_ ? std::min(until_ns, renewal_ns(now_ns)) : until_ns;
    if (listen(lock, wake_ns - now_ns)) return;
    now_ns = now();
    if (renew_leases(now_ns) && given_ns_ > options_.lease_ns && wait.look == Look::for_news) until_ns = now_ns; // awake anyway
  }
}

} // namespace fikit::dispatcher
