// Calls of other threads: they add and remove clients, describe kernels, and ask for figures.
#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

#include "clock.hpp"
#include "dispatcher.hpp"

namespace fikit::dispatcher {
namespace {

constexpr std::int64_t kLongestReadNs = 5'000'000; // of a client that writes faster than fikitd reads
constexpr std::int64_t kMinLeaseNs = 5'000'000;
constexpr std::size_t kMaxTraceEvents = std::size_t{1} << 20;

void check(const policy::Protection& protection) {
  if (!(protection.max_slowdown >= 0 && protection.max_slowdown <= 1))
    throw std::invalid_argument("max_slowdown must be between 0 and 1");
  if (protection.max_delay_ns < 0) throw std::invalid_argument("max_delay_ns must not be negative");
}

void check(const policy::Options& options, std::int64_t spin_ns) {
  check(options.protection);
  if (options.starvation_timeout_ns < 0) throw std::invalid_argument("starvation_timeout_ns must not be negative");
  if (options.lease_ns < kMinLeaseNs || options.lease_ns > policy::kHorizonNs)
    throw std::invalid_argument("lease_ns must be between 5 ms and 10 s");
  for (const std::int64_t ns : {options.min_gap_ns, options.run_ahead_ns, options.idle_after_ns, spin_ns})
    if (ns < 0 || ns > policy::kHorizonNs) throw std::invalid_argument("times must be between 0 and 10 s");
}

void check_priority(int priority) {
  if (priority < 0 || priority > 9) throw std::invalid_argument("priority must be 0 (highest) to 9");
}

} // namespace

Dispatcher::Dispatcher(std::string_view policy, const policy::Options& options, std::int64_t spin_ns,
                       std::uint32_t marker_interval, std::size_t trace_events)
    : options_(options),
      spin_(spin_ns),
      marker_interval_(marker_interval),
      policy_(policy::make_policy(policy, options)),
      traffic_(options.tuning),
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
                            std::uint64_t gang, bool resume, std::shared_ptr<predictor::Room> room, bool overlaps, int pid,
                            std::uint64_t user) {
  check_priority(priority);
  const policy::Protection protection{.max_slowdown = max_slowdown.value_or(options_.protection.max_slowdown),
                                      .max_delay_ns = max_delay_ns.value_or(options_.protection.max_delay_ns)};
  check(protection);
  const std::lock_guard lock(mutex_);
  if (stopping_) throw std::runtime_error("the dispatcher has been stopped");
  if (policy_->client(id) != nullptr) throw std::invalid_argument("this client id is in use");
  const std::int64_t now_ns = now();
  auto added = std::make_unique<Client>(id, memfd, priority, measure, options_, now_ns, traffic_, Gang::of(gang), siblings(gang, now_ns),
                                        trace_events_, std::move(room), overlaps, pid);
  if (resume) added->resume();
  if (!policy_->apply({.kind = policy::EventKind::client_added,
                       .client = id,
                       .time_ns = now_ns,
                       .priority = priority,
                       .measuring = measure,
                       .overlaps = overlaps,
                       .user = user,
                       .job = gang,
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
  traffic_.tell_now(*policy_);
  read(*clients_.back());
  see_turns();
  decide(now());
  tell_clients();
  doorbells_.ring_own();
}

std::shared_ptr<Siblings> Dispatcher::siblings(std::uint64_t gang, std::int64_t now_ns) {
  if (gang == 0) return nullptr;
  std::erase_if(siblings_, [now_ns](const auto& one) { return one.second.use_count() == 1 && one.second->exemption.forgotten(now_ns); });
  std::shared_ptr<Siblings>& same = siblings_[gang];
  if (same == nullptr) same = std::make_shared<Siblings>(options_.lease_ns);
  return same;
}

void Dispatcher::ended(ClientId id) {
  const std::lock_guard lock(mutex_);
  client(id).ended();
}

Departed Dispatcher::remove_client(ClientId id) {
  const std::lock_guard lock(mutex_);
  Client& leaving = client(id);
  read_rest(leaving);
  Stats stats = leaving.stats(now());
  std::vector<JournalEvent> events;
  try {
    events = leaving.events(now());
  } catch (const std::bad_alloc&) { // only its journal is lost
  }
  leaving.leave(now());
  const std::size_t slot = policy_->client(id)->slot;
  doorbells_.remove(slot);
  by_slot_[slot] = nullptr;
  std::erase(reading_, &leaving);
  policy_->apply({.kind = policy::EventKind::client_removed, .client = id, .time_ns = now()});
  const auto at = std::find_if(clients_.begin(), clients_.end(), [id](const auto& c) { return c->id() == id; });
  Departed departed(std::move(*at), std::move(stats), std::move(events));
  clients_.erase(at);
  see_turns();
  decide(now());
  tell_clients();
  doorbells_.ring_own();
  return departed;
}

Departed::Departed(std::unique_ptr<const Client> client, Stats stats, std::vector<JournalEvent> events)
    : client_(std::move(client)), stats_(std::move(stats)), events_(std::move(events)) {}

Story Departed::story() const {
  return {.events = events_, .lost = client_->journal().lost(), .kernels = client_->kernel_names()};
}

void Dispatcher::set_profile(ClientId id, Timed profile, const forecaster::Learnt& before) {
  auto accesses = std::make_shared<const predictor::AccessesLearnt>(before.accesses); // copied here: ms, of a long iteration
  const std::lock_guard lock(mutex_);
  Client& profiled = client(id);
  profiled.set_profile(std::move(profile), before, std::move(accesses));
  policy_->apply({.kind = policy::EventKind::profiled, .client = id, .time_ns = now(), .outlook = profiled.profiled()});
}

void Dispatcher::set_priority(ClientId id, int priority) {
  check_priority(priority);
  const std::lock_guard lock(mutex_);
  Client& changed = client(id);
  if (changed.measuring()) throw std::invalid_argument("a client that measures has no priority");
  if (changed.priority() == priority) return;
  const std::int64_t now_ns = now();
  changed.call_back(now_ns);
  changed.open_gate(now_ns);
  changed.ask_copies({});
  changed.set_priority(priority);
  read(changed);
  policy_->change_priority(id, priority, now_ns);
  policy_->apply({.kind = policy::EventKind::profiled, .client = id, .time_ns = now_ns, .outlook = changed.profiled()});
  traffic_.tell_now(*policy_);
  decide(now());
  tell_clients();
  doorbells_.ring_own();
}

std::shared_ptr<predictor::Room> Dispatcher::room(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).room();
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

std::uint32_t Dispatcher::set_goal(ClientId id, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  return client(id).set_goal(bytes);
}

tracking::Moves Dispatcher::moves(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).moves();
}

tracking::Spent Dispatcher::spent(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).spent(now());
}

Timed Dispatcher::measured(ClientId id) {
  const std::lock_guard lock(mutex_);
  Client& measuring = client(id);
  read_rest(measuring);
  return measuring.measured();
}

forecaster::Learnt Dispatcher::learnt(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).learnt();
}

std::vector<tracking::SwitchMeter::Word> Dispatcher::switches() {
  const std::lock_guard lock(mutex_);
  return traffic_.switches.words();
}

policy::Device Dispatcher::device(int priority) {
  const std::lock_guard lock(mutex_);
  traffic_.tell_now(*policy_);
  return policy_->device(priority);
}

void Dispatcher::remember_switch(std::int64_t switch_ns, std::int64_t spread_ns, std::uint32_t count, int priority) {
  if (switch_ns < 0 || switch_ns > tracking::SwitchMeter::kAtMostNs || spread_ns < 0) throw std::invalid_argument("no GPU's switch takes so long");
  check_priority(priority);
  const std::lock_guard lock(mutex_);
  traffic_.remembered = {.switch_ns = switch_ns, .spread_ns = spread_ns, .count = count, .level = priority};
  traffic_.tell_now(*policy_);
}

std::vector<Idle> Dispatcher::idle_moments(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).idle_moments();
}

Story Dispatcher::journal(ClientId id) {
  const std::lock_guard lock(mutex_);
  Client& told = client(id);
  read_rest(told);
  return {.events = told.events(now()), .lost = told.journal().lost(), .kernels = told.kernel_names()};
}

void Dispatcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    doorbells_.ring_own();
  }
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  for (const auto& client : clients_) client->call_back(now()), client->open_gate(now());
}

Client& Dispatcher::client(ClientId id) {
  const auto it = std::find_if(clients_.begin(), clients_.end(), [id](const auto& c) { return c->id() == id; });
  if (it == clients_.end()) throw std::out_of_range("no such client");
  return **it;
}

// Reads what the client has reported up to now.
void Dispatcher::read_rest(Client& client) {
  const std::int64_t now_ns = now();
  while (client.poll(now_ns, *policy_) && now() - now_ns < kLongestReadNs) {
  }
}

} // namespace fikit::dispatcher
