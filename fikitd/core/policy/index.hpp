// What a decision asks about all clients together, kept up to date as they change, by rows of the ClientTable: so no decision
// has to pass over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "by_length.hpp"
#include "progress.hpp"
#include "rows.hpp"
#include "tournament.hpp"

namespace fikit::policy {

struct Client;

class Index {
 public:
  using First = Tournament<Earliest, kMaxClients>;
  using Last = Tournament<Latest, kMaxClients>;

  struct Sets {
    Rows measuring;
    Rows closed;
    Rows waiting;   // a launch, at the gate
    Rows elsewhere; // the same, and another level decides
    Rows copying;   // a copy, at the gate
    Rows granted;   // grants in flight
    Rows running;   // launches left of a run; decided here, as copying
    Rows unknown;   // has launched work of unknown length
    Rows exclusive; // an exclusive kernel of its job runs
    Rows guarded;   // has a max_delay
    Rows patient;   // who waits for its work waits for its word
    Rows run;       // by_run() and by_length() differ
    bool operator==(const Sets&) const = default;
  };

  // All anew, at passed_ns.
  void begin(std::span<const Client> clients, std::int64_t passed_ns);
  void put(std::size_t row, const Client& client);
  void put_work(std::size_t row, const Client& client); // only what it waits for, and what it has in flight, has changed
  // What ended by now_ns, which is not before any that came before, is not to come any more.
  void pass(std::int64_t now_ns);

  const Sets& sets() const { return sets_; }
  Rows at_gate() const { return sets_.waiting | sets_.copying; }
  const Last& finish() const { return finish_; }   // of a client's work; measuring ones have none
  const First& dry() const { return dry_; }        // the same with its leases, as far as that is to come
  const First& forget() const { return forget_; }  // of its oldest grant
  const First& since() const { return since_; }    // it waits, for a launch or a copy
  // Those whose kernels can be refused with others of about their length: known, not exclusive, and one more grant is possible.
  const ByLength& by_length() const { return by_length_; }
  const ByLength& by_run() const { return by_run_; } // with those that are likely to follow it, if there are any
  std::int64_t passed_ns() const { return passed_ns_; }

  std::uint64_t looks() const { return finish_.looks() + dry_.looks() + forget_.looks() + since_.looks(); }

 private:
  void put_standing(std::size_t row, const Client& client);

  Sets sets_;
  Last finish_;
  First dry_;
  First forget_;
  First since_;
  ByLength by_length_;
  ByLength by_run_;
  std::int64_t passed_ns_ = kLongAgo;
};

} // namespace fikit::policy
