// What a client's page says, as a tracker takes it, and what a tracker says there. The dispatcher's page is shared memory that an
// untrusted process writes (dispatcher/page.hpp); the simulator's is a struct of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "fikit_protocol.h"
#include "policy/base/copying.hpp"
#include "tracking/accounting/moves.hpp"
#include "types/moments.hpp"

namespace fikit::tracking {

// An entry of the page's ring.
struct Report {
  std::int64_t t_ns = 0; // not of SAMPLE and GAP: theirs is `before`
  std::uint32_t slot = 0;
  std::uint32_t kind = 0; // fikit_entry_kind
  std::uint64_t value = 0;
  std::uint64_t before = 0;
};

// What stands at the client's gate.
struct Request {
  bool waiting = false;
  std::uint32_t sequence = 0;
  std::uint32_t slot = 0; // below FIKIT_SLOTS
  policy::Engine engine = policy::Engine::compute; // another one: it is a copy...
  std::uint64_t bytes = 0;                         // ...of so many
  std::int64_t posted_ns = 0;
};

// What the client has counted itself.
struct Counters {
  std::uint64_t launches = 0;
  std::uint64_t wait_count = 0;
  std::uint64_t wait_total_ns = 0;
  std::uint64_t expired = 0;
  std::int64_t first_launch_ns = 0; // 0 = none yet, never later than now
  std::int64_t last_drained_ns = 0; // 0 = none yet, never later than now
  double wait_p99_ns = 0;
};

// What the client calls so; compute for anything else.
inline policy::Engine engine_of(std::uint32_t copy) {
  if (copy == FIKIT_COPY_IN) return policy::Engine::to_device;
  return copy == FIKIT_COPY_OUT ? policy::Engine::to_host : policy::Engine::compute;
}

class ClientPage {
 public:
  virtual ~ClientPage() = default;

  virtual std::uint64_t launches() const = 0; // so far
  virtual bool reached(std::uint32_t mark) const = 0;
  virtual bool knows_runs() const = 0; // else every launch asks

  // The request may go, and after it what comes before launch number run_until (0: nothing).
  virtual void grant(std::uint32_t request, std::uint64_t run_until) = 0;
  virtual void extend_run(std::uint64_t run_until) = 0;
  virtual void end_run() = 0; // nothing may go on without asking
  // Of a slot below FIKIT_SLOTS: how long it runs is known, and whether the device is often idle after it.
  virtual void set_known(std::uint32_t slot, bool gap) = 0;

  // For how long so far its main thread, ready to run, has waited for a processor core; kUnknown: nobody says.
  virtual std::int64_t no_core_ns() const { return kUnknown; }
};

} // namespace fikit::tracking
