#include "budget.hpp"

#include <algorithm>
#include <utility>

namespace fikit::policy {
namespace {

constexpr std::int64_t kLongestGuessNs = 10'000'000;

} // namespace

void Budget::learn(const LevelPolicy& higher) {
  LevelPolicy::learn(higher);
  const auto& other = static_cast<const Budget&>(higher);
  accounts_ = other.accounts_;
  for (Account& account : accounts_) account.use(options().tuning);
  doubtful_ = other.doubtful_;
  guesses_ = other.guesses_;
  queue_.learn(other.queue_);
  copies_.learn(other.copies_);
  see_doubts();
}

void Budget::noted(const Event& event, const Client& client) {
  Account& account = accounts_[client.slot];
  switch (event.kind) {
    case EventKind::client_added:
      account.begin(event.time_ns, options().tuning, client.protection.max_slowdown);
      guesses_[client.slot] = {};
      queue_.came(client);
      copies_.came(client);
      doubtful_[client.slot] = false;
      see_doubts();
      break;
    case EventKind::profiled: account.profiled(event.outlook.slack); break;
    case EventKind::client_removed:
      queue_.went();
      doubtful_[client.slot] = false;
      see_doubts();
      break;
    case EventKind::copied:
      if (copies_.copied(event, client)) look_at_gates();
      if (const Copies::Low& lower = copies_.low(event.engine);
          client.priority < lower.priority && event.time_ns < lower.over_ns) // it stands behind that one, perhaps
        account.copy_stands(event.time_ns, lower.end_ns);
      break;
    case EventKind::launched:
      account.launched(event, client, client.protection.max_slowdown);
      see_doubts(client);
      if (event.granted) overran(client, client.overran_ns);
      break;
    case EventKind::drained:
      if (event.waited && event.duration_ns == 0) account.waited(event, client.protection.max_slowdown);
      else account.seen(client);
      see_doubts(client);
      break;
    case EventKind::running: account.seen(client); break;
    case EventKind::waiting: queue_.waits(client); break;
    case EventKind::grant_done:
      copy_done(event);
      overran(client, client.overran_ns);
      see_guess(event, client);
      break;
    default: break;
  }
}

// What it takes beyond what was granted keeps those above from the device, too.
void Budget::overran(const Client& client, std::int64_t ns) {
  if (ns <= 0) return;
  for (const Client& higher : clients().among(clients().above(client.priority)))
    accounts_[higher.slot].overran(static_cast<double>(ns));
}

// A kernel of unknown length is complete, perhaps.
void Budget::see_guess(const Event& event, const Client& client) {
  Guess& guess = guesses_[client.slot];
  if (guess.asked_ns == 0) return;
  overran(client, std::min(event.time_ns - guess.asked_ns - guess.length_ns, options().lease_ns));
  const std::int64_t took_ns = std::clamp<std::int64_t>(event.time_ns - guess.asked_ns, 0, kLongestGuessNs);
  guess.length_ns += (took_ns - guess.length_ns) / 4;
  guess.asked_ns = 0;
}

void Budget::see_doubts(const Client& client) {
  bool& before = doubtful_[client.slot];
  if (std::exchange(before, accounts_[client.slot].doubtful()) != before) see_doubts();
}

// Whose forecasts are no good has changed, or who there is.
void Budget::see_doubts() {
  bool above = false; // of the level, and of those above it
  bool doubtful = false;
  int level = 0;
  for (Client& client : clients().all()) {
    if (client.priority != level) above = doubtful, level = client.priority;
    doubtful |= !client.measuring && doubtful_[client.slot];
    if (client.patient == (above && !client.measuring)) continue;
    client.patient = above && !client.measuring;
    clients().changed(client);
  }
}

// Closed are all from the first of them on but those that measure, whose work does not count. Where forecasts were no good,
// work that is not known to be over by its end keeps what comes after it from the device.
Budget::Lower Budget::lower_work(std::int64_t now_ns) const {
  for (const Client& client : clients().among(sets().closed & sets().unknown))
    if (client.progress.uncertain_at(now_ns))
      return {.end_ns = now_ns + options().lease_ns, .hold = {.reason = Reason::uncertain, .by = client.id}};
  for (const Client& client : clients().among(sets().closed & sets().granted & sets().patient))
    if (client.late(now_ns))
      return {.end_ns = now_ns + options().lease_ns, .hold = {.reason = Reason::run_ahead, .by = client.id}, .granted = true};
  Lower lower{.end_ns = now_ns, .hold = {}, .granted = (sets().closed & sets().granted).any()};
  const Index::Last& finish = clients().index().finish();
  const std::size_t begin = sets().closed.first();
  if (begin >= finish.size() || finish.best() <= now_ns) return lower;
  const std::size_t last = finish.best_row(begin, finish.size());
  if (last == finish.size() || finish.key(last) <= now_ns) return lower;
  lower.end_ns = finish.key(last);
  lower.hold = {.reason = Reason::run_ahead, .by = clients().at(last).id};
  return lower;
}

std::int64_t Budget::deepest_ns() const {
  const auto deep_ns = static_cast<std::int64_t>(options().tuning.deep * static_cast<double>(options().run_ahead_ns));
  return std::min(deep_ns, options().lease_ns / 2); // nobody is believed to be at work for much longer without a word
}

Budget::Running Budget::running() const {
  Running running{};
  for (const Client& client : clients().among(sets().closed & sets().granted)) {
    if (client.waiting && client.grant_count < kMaxGrants) continue;
    const Client*& least = running[static_cast<std::size_t>(client.priority)];
    if (least == nullptr || queue_.goes_before(client, *least)) least = &client;
  }
  return running;
}

std::int64_t Budget::length_ns(const Client& client) const {
  return client.waiting_duration_ns >= 0 ? client.waiting_duration_ns : guesses_[client.slot].length_ns;
}

std::int64_t Budget::cautious_ns(const Client& client) const { return std::max(length_ns(client), client.cautious_ns); }

void Budget::spend(const Client& client, std::int64_t length_ns, std::int64_t served_ns) {
  above_.spend(client, length_ns);
  queue_.served(client, served_ns);
  if (client.waiting_duration_ns < 0) guesses_[client.slot].asked_ns = above_.now_ns();
}

// By another level's policy, which asked those above it.
void Budget::noted_given(const Given& given, const Client& client, std::int64_t now_ns) {
  if (given.kind == Given::Kind::copy) {
    grant_copy({.client = client, .engine = given.engine, .length_ns = given.granted.work_ns}, given.request, now_ns);
  } else if (given.kind != Given::Kind::end_of_run) {
    above_.look(now_ns, client.priority, lower_work(now_ns).end_ns - now_ns, false);
    above_.spend(client, given.charged_ns);
    queue_.served(client, given.charged_ns);
    if (given.granted.work_ns < 0) guesses_[client.slot].asked_ns = now_ns;
  }
}

void Budget::noted_done_below(const Event& event) { copy_done(event); }

// What is left of a run was affordable when it was granted; a higher client may have launched since.
Client* Budget::overstaying(std::int64_t now_ns) {
  for (Client& client : clients().among(sets().running & sets().closed)) {
    const std::int64_t left_ns = client.run.left_ns;
    if (client.run.astray) return &client; // it goes another way than what was granted
    const std::int64_t end_ns = std::max(client.progress.finish_ns(), now_ns + left_ns);
    for (const Client& higher : clients().among(clients().above(client.priority))) {
      const Account& account = accounts_[higher.slot];
      const bool let_go = left_ns <= account.lets_go_ns(end_ns - left_ns, now_ns, higher.protection);
      if (let_go || account.at_ease(now_ns, higher.protection)) continue;
      const double delay_ns =
          account.expected_delay_ns(end_ns, now_ns) - account.expected_delay_ns(end_ns - left_ns, now_ns);
      if (!account.affords(delay_ns, left_ns, now_ns, higher.progress.busy(now_ns), higher.protection.max_slowdown))
        return &client;
    }
  }
  return nullptr;
}

} // namespace fikit::policy
