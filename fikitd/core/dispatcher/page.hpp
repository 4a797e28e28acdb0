// The shared page of one client: made by fikitd, mapped by both. tracking/page_words.hpp reads and writes its words; this class also wakes
// the client's waiting threads when it changes the gate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core_wait.hpp"
#include "plan_words.hpp"
#include "tracking/page_words.hpp"

namespace fikit::dispatcher {

// Returns a sealed memfd with an initialised page whose gate is open; the caller owns the descriptor. sample_every: one launch in so many is
// timed in runs that are not measured, 0 = none. version: the shim's. collective_names: as on the page, from version 5 on.
// Throws std::system_error, and std::invalid_argument for a version that is not served or names that do not fit.
int make_page(bool measure, std::int64_t lease_ns, std::int64_t spin_ns, std::uint32_t sample_every,
              std::uint32_t version = FIKIT_PROTOCOL_VERSION, std::string_view collective_names = {});

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
  std::uint32_t set_goal(std::uint64_t bytes); // as in PageWords, and wakes the client's thread that waits for it
  void set_awake(bool awake); // sequentially consistent: pairs with the client's "post, then look whether to ring"
  void set_ring_tail(std::uint64_t tail);

  void watch_host(int pid) { core_wait_.watch(pid); } // the client's process
  std::int64_t no_core_ns() const override { return core_wait_.total_ns(); }

  tracking::Counters counters(std::int64_t now_ns) const;
  std::vector<std::uint64_t> slot_launches() const;

  PlanWords& plan() { return plan_; }
  const fikit_page& raw() const { return *page_; }

 private:
  Page(int memfd, std::size_t bytes);
  Page(fikit_page* page, std::size_t bytes); // mapped
  void wake(); // the client's threads that wait on the futex word
  double wait_p99_ns(std::uint64_t total_ns) const;

  std::size_t bytes_; // of the mapping
  PlanWords plan_;    // behind the page, where the file has one
  CoreWait core_wait_;
};

} // namespace fikit::dispatcher
