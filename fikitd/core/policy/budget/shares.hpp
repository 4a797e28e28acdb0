// Which of two clients of one priority has had less of the device: shares go by user, then by job of the user, then by process of the job.
// Who a client belongs to comes from fikitd's records (Client::user, Client::job), never from the client.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/base/clients.hpp"

namespace fikit::policy::budget {

class Shares {
 public:
  void add(const Client& client);
  void remove(const Client& client);
  void served(const Client& client, std::int64_t ns); // the client was granted so much device time
  // The client asks again, and was granted nothing that is still to come. Who asked for nothing saves up no device time: a process is at
  // most behind_ns behind the one of its job that was served last, and so is a job or a user whose clients all had nothing to do for
  // behind_ns. One that asks without such a break keeps a claim of up to 10 ms. clients: all of the table.
  void comes_back(const Client& client, const ClientTable& clients, std::int64_t now_ns, std::int64_t behind_ns);

  // For clients of one priority. By how much more device time, in ns, a's user has had than b's; of one user its job; of one job itself.
  double more_ns(const Client& a, const Client& b) const;
  bool goes_before(const Client& a, const Client& b) const;

 private:
  struct Group { // a user's clients of one priority, or a job's
    int priority = 0;
    std::uint64_t user = 0;
    std::uint64_t job = 0; // of a user's group 0
    std::size_t clients = 0; // 0: the place is free
    double served_ns = 0;
    double newest_ns = 0; // served_ns of its job, or process, that was served last
  };
  using Groups = std::array<Group, kMaxClients>;
  struct Member { // by slot
    std::size_t user = 0; // place in users_
    std::size_t job = 0;  // place in jobs_
    double served_ns = 0;
  };
  static std::size_t join(Groups& groups, const Group& wanted);
  const Member& member(const Client& client) const { return members_[client.slot]; }

  Groups users_{};
  Groups jobs_{};
  std::array<Member, kMaxClients> members_{};
  std::array<double, 10> newest_ns_{}; // by priority: served_ns of the user that was served last
};

} // namespace fikit::policy::budget
