// The shared page of one client: made by the daemon, mapped by both. The client may write anything into it at any time,
// so every read here is one load followed by a check, and nothing read is used as an index, size or time without bounds.
#pragma once

#include <cstdint>
#include <vector>

#include "fikit_protocol.h"
#include "policy/copying.hpp"

namespace fikit::dispatcher {

// A sealed memfd holding an initialised page with an open gate; the caller owns the descriptor. sample_every: one launch
// in so many is timed also when not measuring, 0 = none. version: in which its shim reads it. Throws std::system_error,
// std::invalid_argument for a version that is not served.
int make_page(bool measure, std::int64_t lease_ns, std::int64_t spin_ns, std::uint32_t sample_every,
              std::uint32_t version = FIKIT_PROTOCOL_VERSION);

// What the client calls so; compute for anything else.
policy::Engine engine_of(std::uint32_t copy);

class Page {
 public:
  explicit Page(int memfd); // maps it; the descriptor stays the caller's. Throws std::system_error.
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  // The daemon's words.
  void open_gate();
  void close_gate(std::int64_t until_ns);
  void renew_lease(std::int64_t until_ns);
  // The request may go, and after it what comes before launch number run_until (0: nothing).
  void grant(std::uint32_t request, std::uint64_t run_until);
  void extend_run(std::uint64_t run_until);
  void end_run(); // nothing may go on without asking
  bool knows_runs() const { return knows_runs_; }
  void ask_copies(const policy::CopyEngines& engines); // long ones
  void set_awake(bool awake); // sequentially consistent: pairs with the client's "post, then look whether to ring"
  void set_ring_tail(std::uint64_t tail);
  void set_mark_every(std::uint32_t launches); // 0: no marks
  // Of a slot below FIKIT_SLOTS: how long it runs is known, and whether the device is often idle after it.
  void set_known(std::uint32_t slot, bool gap);

  // The client's words, as they stand.
  struct Request {
    bool waiting = false;
    std::uint32_t sequence = 0;
    std::uint32_t slot = 0; // below FIKIT_SLOTS
    policy::Engine engine = policy::Engine::compute; // another one: it is a copy...
    std::uint64_t bytes = 0;                         // ...of so many
    std::int64_t posted_ns = 0;
  };
  Request request() const;

  struct Counters {
    std::uint64_t launches = 0;
    std::uint64_t wait_count = 0;
    std::uint64_t wait_total_ns = 0;
    std::uint64_t expired = 0;
    std::int64_t first_launch_ns = 0; // 0 = none yet, never later than now
    std::int64_t last_drained_ns = 0; // 0 = none yet, never later than now
    double wait_p99_ns = 0;
  };
  Counters counters(std::int64_t now_ns) const;
  std::vector<std::uint64_t> slot_launches() const;
  bool reached(std::uint32_t mark) const;
  std::uint64_t launches() const; // so far

  const fikit_page& raw() const { return *page_; }

 private:
  void wake(); // whoever waits on the futex word looks again
  double wait_p99_ns(std::uint64_t total_ns) const;

  fikit_page* page_;
  bool knows_copies_;
  bool knows_runs_; // the client may write another version into its page; which one it was given does not change
};

} // namespace fikit::dispatcher
