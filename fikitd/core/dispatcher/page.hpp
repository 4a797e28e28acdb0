// The shared page of one client: made by the daemon, mapped by both. What the client wrote is read as tracking/page_words.hpp has
// it; what the daemon changes at the gate wakes whoever waits there.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core_wait.hpp"
#include "tracking/page_words.hpp"

namespace fikit::dispatcher {

// A sealed memfd holding an initialised page with an open gate; the caller owns the descriptor. sample_every: one launch
// in so many is timed also when not measuring, 0 = none. version: in which its shim reads it. Throws std::system_error,
// std::invalid_argument for a version that is not served, or names that have no room.
// fills_ask and collective_names as in the page, from version 5 on.
int make_page(bool measure, std::int64_t lease_ns, std::int64_t spin_ns, std::uint32_t sample_every,
              std::uint32_t version = FIKIT_PROTOCOL_VERSION, bool fills_ask = false,
              std::string_view collective_names = {});

class Page final : public tracking::PageWords {
 public:
  explicit Page(int memfd); // maps it; the descriptor stays the caller's. Throws std::system_error.
  ~Page() override;
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  void open_gate();
  void close_gate(std::int64_t until_ns);
  void renew_lease(std::int64_t until_ns);
  void grant(std::uint32_t request, std::uint64_t run_until) override;
  std::uint32_t set_goal(std::uint64_t bytes); // as PageWords', and wakes who waits
  void set_awake(bool awake); // sequentially consistent: pairs with the client's "post, then look whether to ring"
  void set_ring_tail(std::uint64_t tail);

  void watch_host(int pid) { core_wait_.watch(pid); } // the client's process
  std::int64_t no_core_ns() const override { return core_wait_.total_ns(); }

  tracking::Counters counters(std::int64_t now_ns) const;
  std::vector<std::uint64_t> slot_launches() const;

  const fikit_page& raw() const { return *page_; }

 private:
  explicit Page(fikit_page* page); // mapped
  void wake(); // whoever waits on the futex word looks again
  double wait_p99_ns(std::uint64_t total_ns) const;

  CoreWait core_wait_;
};

} // namespace fikit::dispatcher
