#include "shares.hpp"

#include <algorithm>

namespace fikit::policy::budget {

// The place of the group, which has one client more now.
std::size_t Shares::join(Groups& groups, const Group& wanted) {
  const auto same = [&](const Group& group) {
    return group.clients > 0 && group.priority == wanted.priority && group.user == wanted.user && group.job == wanted.job;
  };
  auto found = std::ranges::find_if(groups, same);
  if (found == groups.end()) {
    found = std::ranges::find(groups, std::size_t{0}, &Group::clients); // there are no more groups than clients
    *found = wanted;
  }
  ++found->clients;
  return static_cast<std::size_t>(found - groups.begin());
}

void Shares::add(const Client& client) {
  members_[client.slot] = {.user = join(users_, {.priority = client.priority, .user = client.user}),
                           .job = join(jobs_, {.priority = client.priority, .user = client.user, .job = client.job})};
}

void Shares::remove(const Client& client) {
  --users_[member(client).user].clients;
  --jobs_[member(client).job].clients;
}

void Shares::served(const Client& client, std::int64_t ns) {
  Member& member = members_[client.slot];
  Group& user = users_[member.user];
  Group& job = jobs_[member.job];
  for (double* served_ns : {&member.served_ns, &job.served_ns, &user.served_ns}) *served_ns += static_cast<double>(ns);
  job.newest_ns = member.served_ns;
  user.newest_ns = job.served_ns;
  newest_ns_[static_cast<std::size_t>(client.priority)] = user.served_ns;
}

void Shares::comes_back(const Client& client, const ClientTable& clients, std::int64_t now_ns, std::int64_t behind_ns) {
  constexpr std::int64_t kClaimNs = 10'000'000;
  Member& member = members_[client.slot];
  Group& user = users_[member.user];
  Group& job = jobs_[member.job];
  const auto awake = [&](std::size_t Member::*group, std::size_t members) {
    const auto busy = [&](const Client& one) { return now_ns - one.progress.dry_ns() <= behind_ns; };
    if (members == 1) return busy(client);
    const Index::Sets& sets = clients.index().sets();
    const ClientSet asking = sets.waiting | sets.elsewhere | sets.granted;
    return std::ranges::any_of(clients.span(), [&](const Client& one) {
      const bool asks = one.id != client.id && asking.has(clients.row(one));
      return this->member(one).*group == member.*group && one.priority == client.priority && (asks || busy(one));
    });
  };
  const auto lift = [](double& served_ns, double newest_ns, std::int64_t by_ns) {
    served_ns = std::max(served_ns, newest_ns - static_cast<double>(by_ns));
  };
  lift(member.served_ns, job.newest_ns, behind_ns);
  lift(job.served_ns, user.newest_ns, awake(&Member::job, job.clients) ? std::max(kClaimNs, behind_ns) : behind_ns);
  lift(user.served_ns, newest_ns_[static_cast<std::size_t>(client.priority)],
       awake(&Member::user, user.clients) ? std::max(kClaimNs, behind_ns) : behind_ns);
}

double Shares::more_ns(const Client& a, const Client& b) const {
  const Member& one = member(a);
  const Member& other = member(b);
  if (one.user != other.user) return users_[one.user].served_ns - users_[other.user].served_ns;
  if (one.job != other.job) return jobs_[one.job].served_ns - jobs_[other.job].served_ns;
  return one.served_ns - other.served_ns;
}

bool Shares::goes_before(const Client& a, const Client& b) const {
  const double more_ns = this->more_ns(a, b);
  if (more_ns != 0) return more_ns < 0;
  const Member& one = member(a);
  const Member& other = member(b);
  if (one.user != other.user) return one.user < other.user; // as for the device time, so that the order has no circle
  return one.job != other.job ? one.job < other.job : a.id < b.id;
}

} // namespace fikit::policy::budget
