// Lower work whose end no report has confirmed. A reckoned end confirms nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/base/clients.hpp"

namespace fikit::policy::budget {

class Unconfirmed {
 public:
  void begin(std::size_t slot) { work_[slot] = {}; }
  void launches_granted(std::size_t slot, std::uint32_t request, std::int64_t now_ns) { granted(work_[slot], &Work::launches, request, now_ns); }
  void copy_granted(std::size_t slot, std::uint32_t request, std::int64_t now_ns) { granted(work_[slot], &Work::copy, request, now_ns); }
  // The client's gate was open: the first report of an end confirms its work.
  void left_over(std::size_t slot, std::int64_t now_ns) { work_[slot].before = true, work_[slot].since_ns = work_[slot].granted_ns = now_ns; }
  // The grant is over, and grants before it. The device did those that are left after them.
  void done(std::size_t slot, std::uint32_t request, std::int64_t t_ns) {
    Work& work = work_[slot];
    work.before = false;
    work.since_ns = std::max(work.since_ns, t_ns);
    for (Grant* grant : {&work.launches, &work.copy})
      if (grant->request == request) grant->any = false;
  }
  void all_done(std::size_t slot) {
    const std::int64_t granted_ns = work_[slot].granted_ns;
    work_[slot] = {};
    work_[slot].granted_ns = granted_ns;
  }

  // Of the clients below one.
  struct Below {
    bool any = false;
    std::int64_t since_confirmed_ns = 0; // the time for which such work may have had the device
    std::int64_t granted_ns = kLongAgo; // when the newest work was granted, confirmed or not
  };
  Below below(const ClientTable& clients, const Client& higher, std::int64_t now_ns) const {
    Below below;
    for (const Client& client : clients.span()) {
      const Work& work = work_[client.slot];
      if (!higher.outranks(client)) continue;
      below.granted_ns = std::max(below.granted_ns, work.granted_ns);
      if (!work.any()) continue;
      below.any = true;
      below.since_confirmed_ns += std::max<std::int64_t>(0, now_ns - work.since_ns);
    }
    return below;
  }

 private:
  struct Grant { // the newest
    std::uint32_t request = 0;
    bool any = false;
  };
  struct Work {
    Grant launches;
    Grant copy;
    bool before = false;
    std::int64_t since_ns = 0;
    std::int64_t granted_ns = kLongAgo;
    bool any() const { return launches.any || copy.any || before; }
  };
  static void granted(Work& work, Grant Work::*which, std::uint32_t request, std::int64_t now_ns) {
    if (!work.any()) work.since_ns = now_ns;
    work.*which = Grant{.request = request, .any = true};
    work.granted_ns = now_ns;
  }
  std::array<Work, kMaxClients> work_{}; // by slot
};

} // namespace fikit::policy::budget
