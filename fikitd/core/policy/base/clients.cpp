#include "clients.hpp"

#include <algorithm>
#include <utility>

namespace fikit::policy {
namespace {

constexpr std::int64_t kMinGraceNs = 100'000;     // a client may report a completion this late: two polls, one thread switch
// A distrusted client, this late: its kernels take milliseconds longer than reckoned. It is no longer, for a kernel whose completion
// the client never reports must not hold the others for good.
constexpr std::int64_t kPatienceNs = 10'000'000;

void drop_oldest(Client& client, std::size_t count) {
  std::move(client.grants.begin() + static_cast<std::ptrdiff_t>(count),
            client.grants.begin() + static_cast<std::ptrdiff_t>(client.grant_count), client.grants.begin());
  client.grant_count -= count;
}

// Device time of the client's grants that are in flight; kUnknown: of one of them nobody knows it.
std::int64_t granted_ns(const Client& client) {
  std::int64_t sum_ns = 0;
  for (const Grant& grant : std::span(client.grants).first(client.grant_count)) {
    if (grant.duration_ns < 0) return kUnknown;
    sum_ns += grant.duration_ns;
  }
  return sum_ns;
}

} // namespace

std::int64_t Client::forget_ns() const {
  if (grant_count == 0) return kNever;
  const Grant& oldest = grants.front();
  if (oldest.duration_ns < 0 || !reports_done) return oldest.end_ns;
  const std::int64_t shortest_ns = distrusted ? kPatienceNs : kMinGraceNs;
  return oldest.end_ns + std::clamp(oldest.duration_ns / 2, shortest_ns, std::max(shortest_ns, lease_ns));
}

bool Client::late(std::int64_t now_ns) const {
  if (grant_count == 0 || !distrusted || !reports_done) return false;
  const Grant& oldest = grants.front();
  return oldest.duration_ns >= 0 && oldest.end_ns + kMinGraceNs < now_ns;
}

std::optional<std::int64_t> Client::reckoned_end_ns(std::uint32_t request) const {
  const auto live = std::span(grants).first(grant_count);
  const auto it = std::find_if(live.begin(), live.end(), [request](const Grant& g) { return g.request == request; });
  return it == live.end() ? std::nullopt : std::optional(it->end_ns);
}

Client* ClientTable::find(ClientId id) {
  std::size_t begin = 0;
  for (std::size_t many = count_; many > 1;) { // halves without a branch: nobody can foresee it
    const std::size_t half = many / 2;
    begin = by_id_[begin + half].id <= id ? begin + half : begin;
    many -= half;
  }
  const Named& named = by_id_[begin];
  return begin < count_ && named.id == id ? &clients_[named.row] : nullptr;
}

const Client* ClientTable::find(ClientId id) const { return const_cast<ClientTable*>(this)->find(id); }

Client* ClientTable::add(ClientId id, int priority, bool measuring, std::int64_t now_ns, std::size_t slot) {
  if (count_ == kMaxClients || find(id) != nullptr) return nullptr;
  const int level = std::clamp(priority, 0, 9);
  const auto before = [&](const Client& c) { return c.priority != level ? c.priority < level : c.id < id; };
  const auto place = std::partition_point(clients_.begin(), clients_.begin() + static_cast<std::ptrdiff_t>(count_), before);
  std::move_backward(place, clients_.begin() + static_cast<std::ptrdiff_t>(count_),
                     clients_.begin() + static_cast<std::ptrdiff_t>(count_ + 1));
  ++count_;
  Client& client = *place;
  client = Client{};
  client.id = id;
  const auto free = static_cast<std::size_t>(std::find(slots_.begin(), slots_.end(), false) - slots_.begin());
  client.slot = slot < kMaxClients ? slot : free;
  slots_[client.slot] = true;
  client.priority = level;
  client.measuring = measuring;
  client.decided = decided(level);
  client.lease_ns = lease_ns_;
  client.progress = Progress(now_ns);
  reindex();
  return &client;
}

bool ClientTable::remove(ClientId id, std::int64_t now_ns) {
  Client* client = find(id);
  if (client == nullptr) return false;
  queue_.at_most(client->backlog, now_ns, 0);
  slots_[client->slot] = false;
  std::move(client + 1, clients_.data() + count_, client);
  --count_;
  reindex();
  return true;
}

void ClientTable::set_level(int level) {
  level_ = level;
  for (Client& client : std::span(clients_).first(count_)) client.decided = decided(client.priority);
  reindex();
}

// Clients came, went or moved to other rows.
void ClientTable::reindex() {
  everybody_ = {};
  level_begin_.fill(count_);
  for (std::size_t row = count_; row-- > 0;) {
    everybody_.set(row, true);
    by_id_[row] = {.id = clients_[row].id, .row = row};
    for (std::size_t level = 0; level <= static_cast<std::size_t>(clients_[row].priority); ++level) level_begin_[level] = row;
  }
  std::ranges::sort(std::span(by_id_).first(count_), {}, &Named::id);
  index_.begin(span(), index_.passed_ns());
}

bool ClientTable::index_agrees() const {
  Index anew;
  anew.begin(span(), index_.passed_ns());
  const auto same = [this](const auto& a, const auto& b) {
    for (std::size_t row = 0; row < count_; ++row)
      if (a.key(row) != b.key(row) || a.best(0, row + 1) != b.best(0, row + 1)) return false;
    return a.size() == b.size() && a.best() == b.best();
  };
  return anew.sets() == index_.sets() && same(anew.finish(), index_.finish()) && same(anew.dry(), index_.dry()) &&
         same(anew.forget(), index_.forget());
}

// The device serves its clients one after the other: a launch waits for all work that is there. Lower clients delay it only as far as
// their work lasts longer than the client's own and that of clients above. A delay that one launch has met counts for no later one.
std::int64_t ClientTable::see_queue(Client& client, std::int64_t t_ns) const {
  const std::int64_t free_ns = device_free_ns(&client);
  std::int64_t others_ns = std::max({t_ns, client.progress.finish_ns(), client.stood_until_ns});
  client.stood_ns = 0;
  if (free_ns <= others_ns || client.measuring) return free_ns; // as nearly always
  const Index::Last& finish = index_.finish();
  const std::size_t below = first_below(client.priority);
  const std::int64_t lower_ns = finish.best(below, count_);
  if (lower_ns == Latest::kNone) return free_ns;
  const Client& lower = at(finish.first(below, lower_ns));
  if (lower.reports_done && lower.grant_count > 0) return free_ns; // what it delayed is known when it is complete
  others_ns = std::max(others_ns, finish.best(0, below));
  client.stood_behind = lower.id;
  // The lower work's end was reckoned behind work of others, which may have taken less; the delay is no longer than the lower work itself.
  std::int64_t takes_ns = 0;
  for (const Client& each : std::span(clients_).subspan(below, count_ - below)) takes_ns += each.backlog.takes_ns();
  client.stood_ns = std::clamp<std::int64_t>(std::min(lower_ns - others_ns, takes_ns), 0, lease_ns_);
  client.stood_until_ns = others_ns + client.stood_ns;
  return free_ns;
}

void ClientTable::close(Client& client, std::int64_t now_ns) {
  client.closed = true;
  client.believed_until_ns = now_ns + lease_ns_;
  client.to_launch = 0;
  client.progress.end_by(client.believed_until_ns);
  queue_.at_most(client.backlog, now_ns, lease_ns_);
  changed(client);
}

void ClientTable::open(Client& client) {
  client.closed = client.waiting = false;
  client.copy = Engine::compute;
  client.believed_until_ns = kNever;
  client.run = {};
  changed(client);
}

bool ClientTable::let_go(Client& client, bool granted, std::int64_t t_ns) const {
  if (!client.may_have_launched(granted, t_ns)) return false;
  if (client.closed && granted) --client.to_launch;
  return true;
}

// For how long other clients kept this one from the device in the other table does not count in this one.
void ClientTable::take_over(const Client& known, std::int64_t now_ns) {
  Client& client = *find(known.id);
  client.progress = known.progress;
  client.progress.finish_by(now_ns + known.backlog.takes_ns());
  client.at_rest = known.at_rest;
  client.gap_ns = known.gap_ns;
  queue_.add(client.backlog, now_ns, known.backlog.takes_ns());
  changed(client);
}

// Bounds what a client's reports of work without a grant can do while its gate is closed.
void ClientTable::cap(Client& client, const Progress& before, std::int64_t t_ns) const {
  if (!client.closed) return;
  client.progress.no_later_than(before, t_ns < client.believed_until_ns ? client.believed_until_ns : kLongAgo);
}

void ClientTable::launched(Client& client, std::int64_t t_ns, std::int64_t duration_ns, std::int64_t gap_ns,
                           std::int64_t in_line_ns) {
  const Progress before = client.progress;
  const std::int64_t believed_ns = client.closed ? std::max<std::int64_t>(client.believed_until_ns - t_ns, 0) : kHorizonNs;
  enqueue(client, t_ns, std::min(duration_ns, believed_ns), gap_ns, in_line_ns);
  cap(client, before, t_ns);
  if (client.closed) queue_.at_most(client.backlog, t_ns, std::max(believed_ns, granted_ns(client)));
}

void ClientTable::enqueue(Client& client, std::int64_t t_ns, std::int64_t duration_ns, std::int64_t gap_ns,
                          std::int64_t in_line_ns) {
  const std::int64_t takes_ns = client.closed ? std::min(duration_ns, lease_ns_) : duration_ns;
  client.progress.launched(t_ns, see_queue(client, t_ns), takes_ns, lease_ns_, in_line_ns);
  client.gap_ns = gap_ns;
  client.at_rest = false;
  if (client.measuring || takes_ns < 0) return;
  queue_.add(client.backlog, t_ns, takes_ns, in_line_ns);
}

void ClientTable::granted_launch(Client& client, std::int64_t t_ns, std::uint32_t request, std::int64_t duration_ns,
                                 std::int64_t gap_ns) {
  client.gap_ns = gap_ns;
  client.at_rest = false;
  const std::int64_t left_ns = client.run.left_ns; // with this launch
  if (client.run.taken && client.run.launches > 0) --client.run.launches;
  client.run.taken = true;
  const std::int64_t rest_ns = left_ns - std::max<std::int64_t>(0, duration_ns);
  const std::int64_t unforeseen_ns = std::clamp<std::int64_t>(-rest_ns, 0, lease_ns_);
  client.overran_ns = unforeseen_ns;
  client.run.mispredicted = unforeseen_ns > 0;
  client.run.left_ns = client.run.launches == 0 ? 0 : std::max<std::int64_t>(0, rest_ns);
  Grant* newest = client.grant_count == 0 ? nullptr : &client.grants[client.grant_count - 1];
  if (newest == nullptr || newest->request != request) { // the client launches so late that the grant has counted as over
    enqueue(client, t_ns, duration_ns, gap_ns);
    return;
  }
  if (newest->duration_ns < 0) {
    client.progress.launched(t_ns, 0, kUnknown, lease_ns_);
    return;
  }
  // What is left of the grant begins now at the earliest.
  const std::int64_t late_ns = std::max<std::int64_t>(0, t_ns + left_ns - newest->end_ns) + unforeseen_ns;
  const std::int64_t moves_ns = std::min(late_ns, lease_ns_ - newest->moved_ns);
  const std::int64_t longer_ns = std::min(unforeseen_ns, moves_ns);
  newest->moved_ns += moves_ns;
  newest->duration_ns += longer_ns;
  queue_.add(client.backlog, t_ns, longer_ns);
  client.progress.delay(moves_ns);
  newest->end_ns += moves_ns;
}

void ClientTable::drained(Client& client, const Completion& seen) {
  const Progress before = client.progress;
  client.progress.drained(seen, lease_ns_);
  cap(client, before, seen.t_ns);
  if (seen.remaining_ns >= 0) queue_.at_most(client.backlog, seen.t_ns, seen.remaining_ns);
  if (seen.remaining_ns != 0 || client.grant_count == 0) return;
  forget(client, client.grants[client.grant_count - 1]);
  client.grant_count = 0;
}

void ClientTable::running(Client& client, std::int64_t t_ns, std::int64_t remaining_ns) {
  const Progress before = client.progress;
  client.progress.running(t_ns, remaining_ns, lease_ns_);
  cap(client, before, t_ns);
}

void ClientTable::done_below(Client& client, std::int64_t t_ns, std::uint32_t request) {
  const auto live = std::span(client.grants).first(client.grant_count);
  const auto it = std::find_if(live.begin(), live.end(), [request](const Grant& g) { return g.request == request; });
  if (it == live.end()) return;
  drop_oldest(client, static_cast<std::size_t>(it - live.begin()) + 1);
  const std::int64_t left_ns = granted_ns(client); // of known lengths all
  queue_.at_most(client.backlog, t_ns, left_ns);
  client.progress.end_by(t_ns + left_ns);
}

void ClientTable::all_done_below(Client& client, std::int64_t t_ns) {
  client.grant_count = 0;
  queue_.at_most(client.backlog, t_ns, 0);
  client.progress.end_by(t_ns);
}

void ClientTable::end_run(Client& client) {
  Run& run = client.run;
  run.launches = 0;
  run.next = run.long_next = {.launches = 0, .work_ns = 0};
  if (run.taken) run.spare_ns += std::exchange(run.left_ns, 0);
  if (client.grant_count > 0) client.grants[client.grant_count - 1].ended = true;
  work_changed(client);
}

void ClientTable::forget(Client& client, const Grant& grant) const { client.forgotten = grant.ended ? Grant{} : grant; }

// By how much the grant took longer than reckoned. The client's next grants in flight are as late, though they take no longer themselves.
void ClientTable::see_end(Client& client, const Grant& grant, std::int64_t t_ns) const {
  const std::int64_t late_ns = grant.duration_ns < 0 ? 0 : t_ns - grant.end_ns;
  client.overran_ns = std::clamp<std::int64_t>(late_ns - client.late_ns, 0, lease_ns_);
  client.late_ns = client.grant_count > 1 ? late_ns : 0;
}

void ClientTable::grant_done(Client& client, std::int64_t t_ns, std::uint32_t request) {
  client.reports_done = true;
  client.overran_ns = 0;
  const auto live = std::span(client.grants).first(client.grant_count);
  const auto it = std::find_if(live.begin(), live.end(), [request](const Grant& g) { return g.request == request; });
  if (it == live.end()) { // the grant has counted as over already, or never was
    if (client.forgotten.request == request) see_end(client, std::exchange(client.forgotten, {}), t_ns);
    return;
  }
  const std::int64_t late_ns = it->duration_ns < 0 ? 0 : t_ns - it->end_ns;
  see_end(client, *it, t_ns);
  drop_oldest(client, static_cast<std::size_t>(it - live.begin()) + 1);
  std::int64_t remaining_ns = granted_ns(client);
  if (remaining_ns >= 0) queue_.at_most(client.backlog, t_ns, remaining_ns);
  // Other clients' work may run between this client's grants: so the newest ends when it was reckoned to, as late as this one was.
  if (remaining_ns > 0)
    remaining_ns = std::max(remaining_ns, client.grants[client.grant_count - 1].end_ns + late_ns - t_ns);
  client.progress.drained({.t_ns = t_ns, .remaining_ns = remaining_ns}, lease_ns_);
}

void ClientTable::grant(Client& client, std::int64_t now_ns, const Launches& granted) {
  client.waiting = false;
  const std::int64_t known_ns = std::max<std::int64_t>(0, granted.work_ns);
  client.run = {.launches = granted.launches - 1, .left_ns = known_ns, .granted_ns = known_ns};
  // A thread of the client may not have reported yet the launch that it was granted before.
  client.to_launch = granted.launches + std::min(client.to_launch, 1U);
  if (client.grant_count == kMaxGrants) drop_oldest(client, 1); // another level's policy grants, and knows that the oldest is over
  client.progress.launched(now_ns, device_free_ns(&client), granted.work_ns, lease_ns_);
  queue_.add(client.backlog, now_ns, known_ns);
  client.grants[client.grant_count++] = {.request = client.request,
                                         .duration_ns = granted.work_ns,
                                         .end_ns = client.progress.dry_ns()};
  work_changed(client);
}

void ClientTable::take_back(Client& client, std::int64_t t_ns) {
  const std::int64_t spare_ns = std::exchange(client.run.spare_ns, 0);
  if (spare_ns <= 0 || client.grant_count == 0) return;
  Grant& newest = client.grants[client.grant_count - 1];
  const std::int64_t back_ns = std::min(spare_ns, newest.duration_ns);
  if (back_ns <= 0) return;
  newest.duration_ns -= back_ns;
  newest.end_ns -= back_ns;
  client.progress.shorten(back_ns);
  if (const std::int64_t left_ns = granted_ns(client); left_ns >= 0) queue_.at_most(client.backlog, t_ns, left_ns);
}

std::uint32_t ClientTable::extend(Client& client, std::int64_t now_ns, const Launches& to) {
  return give_more(client, now_ns, {.launches = to.launches - client.run.launches, .work_ns = client.run.more_ns(to)});
}

std::uint32_t ClientTable::give_more(Client& client, std::int64_t now_ns, const Launches& more) {
  if (client.grant_count == 0) return 0; // by another level; here it was reckoned to be over
  Run& run = client.run;
  Grant& newest = client.grants[client.grant_count - 1];
  run.launches += more.launches;
  client.to_launch += more.launches;
  run.left_ns += more.work_ns;
  run.granted_ns += more.work_ns;
  client.progress.launched(now_ns, device_free_ns(&client), more.work_ns, lease_ns_);
  newest.duration_ns += more.work_ns;
  queue_.add(client.backlog, now_ns, more.work_ns);
  newest.end_ns = client.progress.dry_ns();
  work_changed(client);
  return more.launches;
}

void ClientTable::pass(std::int64_t now_ns) {
  if (now_ns < index_.passed_ns()) index_.begin(span(), now_ns);
  index_.pass(now_ns);
  while (index_.forget().best() <= now_ns) {
    Client& client = clients_[index_.forget().best_row()];
    ++looks_;
    for (; client.forget_ns() <= now_ns; drop_oldest(client, 1)) forget(client, client.grants.front());
    if (const std::int64_t left_ns = granted_ns(client); left_ns >= 0) queue_.at_most(client.backlog, now_ns, left_ns);
    work_changed(client);
  }
}

std::int64_t ClientTable::next_end_ns(std::int64_t now_ns) const {
  std::int64_t next_ns = index_.forget().best();
  if (next_ns <= now_ns) { // just granted, and takes no time
    next_ns = kNever;
    for (const Client& client : among(index_.sets().granted))
      if (const std::int64_t forget_ns = client.forget_ns(); forget_ns > now_ns) next_ns = std::min(next_ns, forget_ns);
  }
  return std::min(next_ns, index_.dry().best());
}

// Measuring clients' work is not among it.
std::int64_t ClientTable::device_free_ns(const Client* except) const {
  const Index::Last& finish = index_.finish();
  const std::int64_t last_ns = std::max<std::int64_t>(0, finish.best());
  if (except == nullptr) return last_ns;
  const std::size_t own = row(*except);
  if (finish.key(own) < last_ns) return last_ns;
  return std::max({std::int64_t{0}, finish.best(0, own), finish.best(own + 1, count_)});
}

} // namespace fikit::policy
