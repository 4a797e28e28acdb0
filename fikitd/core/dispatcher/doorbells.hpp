// Blocks until a client rings, and says who did. Edge-triggered: a doorbell is never read, so a client that drains or floods
// its own eventfd can neither block the dispatcher nor be missed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "policy/policy.hpp"

namespace fikit::dispatcher {

class Doorbells {
 public:
  Doorbells();
  ~Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  // slot: of the policy's table. Keeps a duplicate; throws std::system_error.
  void add(std::size_t slot, int eventfd);
  void remove(std::size_t slot);
  void ring_own(); // ends wait(); any thread
  // Until somebody rings or the time is over; true: somebody rang. One thread at a time.
  [[nodiscard]] bool wait(std::int64_t timeout_ns);
  std::span<const std::size_t> rung() const { return std::span(rung_).first(count_); } // slots, by the last wait()

 private:
  int epoll_;
  int own_;
  std::array<int, policy::kMaxClients> eventfds_{}; // by slot; 0: none
  std::array<std::size_t, policy::kMaxClients> rung_{};
  std::size_t count_ = 0;
};

} // namespace fikit::dispatcher
