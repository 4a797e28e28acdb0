// What a decision asks about all clients together. The ClientTable keeps it up to date, row by row, as clients change: so no decision
// has to look at all clients.
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
    ClientSet waiting;   // a launch of the client stands at the gate, and this level's policy decides
    ClientSet elsewhere; // the same, and another level's policy decides
    ClientSet copying;   // a copy of the client stands at the gate, and this level's policy decides
    ClientSet granted;   // the client has grants in flight
    ClientSet running;   // the client has launches left of a run, and this level's policy decides
    ClientSet unknown;   // the client has launched work of unknown length
    ClientSet exclusive; // an exclusive kernel of the client's job runs
    bool operator==(const Sets&) const = default;
  };

  // Makes the index anew, as of passed_ns.
  void begin(std::span<const Client> clients, std::int64_t passed_ns);
  void put(std::size_t row, const Client& client);
  void put_work(std::size_t row, const Client& client); // where only what it waits for, and what it has in flight, has changed
  // Time has come to now_ns, which never goes back: what ended by then is not to come any more.
  void pass(std::int64_t now_ns);

  const Sets& sets() const { return sets_; }
  ClientSet at_gate() const { return sets_.waiting | sets_.copying; }
  const Last& finish() const { return finish_; }   // when each client's work ends; measuring clients have none
  const First& dry() const { return dry_; }        // the same with leases of unknown work, where that is to come
  const First& forget() const { return forget_; }  // when each client's oldest grant counts as over (Client::forget_ns)
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
