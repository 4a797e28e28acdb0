// Waits until a client rings, and tells which did. The wait is edge-triggered and never reads a doorbell: so a client that drains or floods
// its own eventfd neither blocks the dispatcher nor makes it miss a ring.
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

  // slot: in the policy's table. Keeps a duplicate of the descriptor; throws std::system_error.
  void add(std::size_t slot, int eventfd);
  void remove(std::size_t slot);
  void ring_own(); // ends wait(); any thread
  // Until a doorbell rings or the time is over; true: one rang. One thread at a time.
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
