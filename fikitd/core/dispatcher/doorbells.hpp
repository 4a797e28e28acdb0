// Blocks until a client rings. Edge-triggered: a doorbell is never read, so a client that drains or floods its own eventfd
// can neither block the dispatcher nor be missed.
#pragma once

#include <cstdint>
#include <map>

#include "policy/policy.hpp"

namespace fikit::dispatcher {

class Doorbells {
 public:
  Doorbells();
  ~Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  void add(policy::ClientId client, int eventfd); // keeps a duplicate; throws std::system_error
  void remove(policy::ClientId client);
  void ring_own();                       // ends wait(); any thread
  // True: somebody rang. The timeout is rounded down to milliseconds, at least one.
  [[nodiscard]] bool wait(std::int64_t timeout_ns) const;

 private:
  int epoll_;
  int own_;
  std::map<policy::ClientId, int> eventfds_;
};

} // namespace fikit::dispatcher
