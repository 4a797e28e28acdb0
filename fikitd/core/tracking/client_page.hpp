// A client's page as its tracker reads and writes it. The dispatcher's page is shared memory that an
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
  std::int64_t t_ns = 0; // SAMPLE, GAP, TOUCHES and TOUCH have none
  std::uint32_t slot = 0;
  std::uint32_t kind = 0; // fikit_entry_kind
  std::uint64_t value = 0;
  std::uint64_t before = 0;
};

// The launch or copy that waits at the client's gate.
struct Request {
  bool waiting = false;
  std::uint32_t sequence = 0;
  std::uint32_t slot = 0; // below FIKIT_SLOTS
  policy::Engine engine = policy::Engine::compute; // of a copy: the copy engine
  std::uint64_t bytes = 0;                         // of a copy: its size
  std::int64_t posted_ns = 0;
};

// The client's own counters on its page.
struct Counters {
  std::uint64_t launches = 0;
  std::uint64_t wait_count = 0;
  std::uint64_t wait_total_ns = 0;
  std::uint64_t expired = 0;
  std::int64_t first_launch_ns = 0; // 0 = none yet, never later than now
  std::int64_t last_drained_ns = 0; // 0 = none yet, never later than now
  double wait_p99_ns = 0;
};

// The engine that the page's word names; compute for an unknown word.
inline policy::Engine engine_of(std::uint32_t copy) {
  if (copy == FIKIT_COPY_IN) return policy::Engine::to_device;
  return copy == FIKIT_COPY_OUT ? policy::Engine::to_host : policy::Engine::compute;
}

class ClientPage {
 public:
  virtual ~ClientPage() = default;

  virtual std::uint64_t launches() const = 0; // so far
  virtual bool reached(std::uint32_t mark) const = 0;
  virtual bool knows_runs() const = 0; // false: an old shim, which asks for every launch

  // Grants the request and, without further requests, every launch before number run_until (0: none).
  virtual void grant(std::uint32_t request, std::uint64_t run_until) = 0;
  virtual void extend_run(std::uint64_t run_until) = 0;
  virtual void end_run() = 0; // from now on every launch asks
  // Tells the shim that the duration of this slot's kernel is known (slot below FIKIT_SLOTS). gap: the device is often idle after it.
  virtual void set_known(std::uint32_t slot, bool gap) = 0;

  // For how long the client's main thread has so far been ready to run and had no processor core; kUnknown: not known.
  virtual std::int64_t no_core_ns() const { return kUnknown; }
};

} // namespace fikit::tracking
