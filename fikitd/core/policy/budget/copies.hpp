// Copies between host and device: when each client copies next, and which long copies of lower clients are under way. The device
// makes the copies of one direction one after the other.
#pragma once

#include <array>
#include <cstdint>

#include "policy/base/clients.hpp"
#include "policy/base/copying.hpp"
#include "policy/base/events.hpp"

namespace fikit::policy {

class Copies {
 public:
  // The newest copy of a lower client that was granted on an engine.
  struct Low {
    std::int64_t granted_ns = 0;
    std::int64_t end_ns = 0; // as reckoned, behind the copies before it; a lease after its grant at most
    std::int64_t over_ns = 0; // when the client reported that it is over; until then, a lease after its grant
    ClientId client = 0;
    std::uint32_t request = 0;
    int priority = 0;
  };

  struct Asked { // a lower client asks to copy
    const Client& client;
    Engine engine;
    std::int64_t length_ns;
  };

  Copies(const ClientTable& clients, const Options& options) : clients_(clients), options_(options) {}

  void learn(const Copies& other) { copying_ = other.copying_, low_ = other.low_; }
  void came(const Client& client) { copying_[client.slot] = {}; }
  // The client has handed a copy to the device. True: its first copy, so from now on copies of lower clients may delay it.
  bool copied(const Event& event, const Client& client);
  const Copying& of(const Client& client, Engine engine) const { return copying_[client.slot][copy_engine(engine)]; }
  CopyEngines that_matter(const Client& client) const;

  const Low& low(Engine engine) const { return low_[copy_engine(engine)]; }
  // When the copy would be over if it were granted now; by how much more that delays a higher client than the copies granted before.
  std::int64_t end_ns(const Asked& copy, std::int64_t now_ns) const;
  double delay_ns(const Client& higher, Engine engine, std::int64_t end_ns, std::int64_t now_ns) const;
  void grant(const Asked& copy, std::uint32_t request, std::int64_t end_ns, std::int64_t now_ns);
  // A grant is over. Calls seen(low) if it was the newest copy on an engine.
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
  std::array<std::array<Copying, kCopyEngines>, kMaxClients> copying_{}; // by slot: when the client copies, as a higher one
  std::array<Low, kCopyEngines> low_{};                                 // by engine
};

} // namespace fikit::policy
