// What a decision asks about all clients together, kept up to date as they change, by rows of the ClientTable: so no decision
// has to pass over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "client_set.hpp"
#include "progress.hpp"
#include "tournament.hpp"

namespace fikit::policy {

struct Client;

class Index {
 public:
  using First = Tournament<Earliest, kMaxClients>;
  using Last = Tournament<Latest, kMaxClients>;

  struct Sets {
    ClientSet measuring;
    ClientSet closed;
    ClientSet waiting;   // a launch, at the gate
    ClientSet elsewhere; // the same, and another level decides
    ClientSet copying;   // a copy, at the gate
    ClientSet granted;   // grants in flight
    ClientSet running;   // launches left of a run; decided here, as copying
    ClientSet unknown;   // has launched work of unknown length
    ClientSet exclusive; // an exclusive kernel of its job runs
    bool operator==(const Sets&) const = default;
  };

  // All anew, at passed_ns.
  void begin(std::span<const Client> clients, std::int64_t passed_ns);
  void put(std::size_t row, const Client& client);
  void put_work(std::size_t row, const Client& client); // only what it waits for, and what it has in flight, has changed
  // What ended by now_ns, which is not before any that came before, is not to come any more.
  void pass(std::int64_t now_ns);

  const Sets& sets() const { return sets_; }
  ClientSet at_gate() const { return sets_.waiting | sets_.copying; }
  const Last& finish() const { return finish_; }   // of a client's work; measuring ones have none
  const First& dry() const { return dry_; }        // the same with its leases, as far as that is to come
  const First& forget() const { return forget_; }  // of its oldest grant
  std::int64_t passed_ns() const { return passed_ns_; }

  std::uint64_t looks() const { return finish_.looks() + dry_.looks() + forget_.looks(); }

 private:
  void put_standing(std::size_t row, const Client& client);

  Sets sets_;
  Last finish_;
  First dry_;
  First forget_;
  std::int64_t passed_ns_ = kLongAgo;
};

} // namespace fikit::policy
