// After how long a request goes next, whatever it costs those above. Below a client with a max_delay, while what it was cost
// before is not paid back, and while others may wait behind a request of it, that is later.
#pragma once

#include <cstdint>
#include <span>

#include "account.hpp"
#include "clients.hpp"
#include "events.hpp"

namespace fikit::policy {

class Ageing {
 public:
  // accounts: of the clients, by slot.
  Ageing(const ClientTable& clients, std::span<const Account> accounts, const Options& options);

  // Who is guarded now, until this is called again.
  void begin(std::int64_t now_ns);
  bool due(const Client& client, std::int64_t now_ns);
  Rows all_due(std::int64_t now_ns); // of those whose launch waits
  // When the next of those who wait is due; kNever if none will be.
  std::int64_t next_ns(std::int64_t now_ns) const;

 private:
  std::int64_t after_ns(const Client& client) const { return client.priority > guard_ ? guarded_ns_ : ns_; }
  void see_guarded();

  const ClientTable& clients_;
  std::span<const Account> accounts_;
  std::int64_t ns_;
  std::int64_t guarded_ns_;  // for those below this priority: the highest of those who are guarded
  int guard_ = 10;
  std::int64_t now_ns_ = 0;
  bool all_seen_ = false; // not only those with a max_delay: the others are looked for only where a request may be due
};

} // namespace fikit::policy
