// Copies between host and device: when each client copies next, and which long ones of lower clients are under way. The device
// makes those of one direction one after the other.
#pragma once

#include <array>
#include <cstdint>

#include "policy/base/clients.hpp"
#include "policy/base/copying.hpp"
#include "policy/base/events.hpp"

namespace fikit::policy {

class Copies {
 public:
  // The newest of a lower client that was granted on an engine.
  struct Low {
    std::int64_t granted_ns = 0;
    std::int64_t end_ns = 0; // as far as is reckoned, with those before it; a lease from its grant at most
    std::int64_t over_ns = 0; // by then: as its client said, or a lease from its grant
    ClientId client = 0;
    std::uint32_t request = 0;
    int priority = 0;
  };

  struct Asked { // of a lower client
    const Client& client;
    Engine engine;
    std::int64_t length_ns;
  };

  Copies(const ClientTable& clients, const Options& options) : clients_(clients), options_(options) {}

  void learn(const Copies& other) { copying_ = other.copying_, low_ = other.low_; }
  void came(const Client& client) { copying_[client.slot] = {}; }
  // It has handed one over. True: its first one, so those of others come to matter.
  bool copied(const Event& event, const Client& client);
  const Copying& of(const Client& client, Engine engine) const { return copying_[client.slot][copy_engine(engine)]; }
  CopyEngines that_matter(const Client& client) const;

  const Low& low(Engine engine) const { return low_[copy_engine(engine)]; }
  // When one would be over, if it were granted now; what that delays a higher client by, beyond those granted before.
  std::int64_t end_ns(const Asked& copy, std::int64_t now_ns) const;
  double delay_ns(const Client& higher, Engine engine, std::int64_t end_ns, std::int64_t now_ns) const;
  void grant(const Asked& copy, std::uint32_t request, std::int64_t end_ns, std::int64_t now_ns);
  // seen(of the newest ones what this grant was, which is done).
  template <class Seen>
  void done(const Event& event, Seen seen) {
    for (Low& copy : low_) {
      if (copy.client != event.client || copy.request != event.request) continue;
      copy.end_ns = std::min(copy.end_ns, event.time_ns);
      copy.over_ns = std::min(copy.over_ns, event.time_ns);
      seen(std::as_const(copy));
    }
  }

 private:
  const ClientTable& clients_;
  const Options& options_;
  std::array<std::array<Copying, kCopyEngines>, kMaxClients> copying_{}; // of a client as a higher one, by slot
  std::array<Low, kCopyEngines> low_{};                                 // by engine
};

} // namespace fikit::policy
