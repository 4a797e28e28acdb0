// The template of a policy, and an essay on how one is written. docs/write-a-policy.md does the same in Python.
//
// 1. What a policy is. A class that is asked questions. Jobs' processes are its clients. A client that no higher one outranks
//    launches without asking: its gate is open. Every other client stands at a closed gate with each launch until a policy grants
//    it. One object decides about the clients of one priority (its level); whoever derives from LevelPolicy writes that object.
//
// 2. Events. LevelPolicy::apply() takes each event (events.hpp) and keeps the table of clients by it; a policy reads the table.
//      client_added, client_removed    who is there: priority, measuring, protection
//      launched                        a kernel went to the device: client.progress reckons when it is over
//      waiting, waiting_ended          a request stands at the gate, or was given up: client.waiting, waiting_duration_ns
//      grant_done, running, drained    how far the device really is: they correct client.progress
//      copied, profiled, exclusive_runs, tick     a copy; a profile; a kernel that waits for others; only time has passed
//    noted() is called after each, for a policy that keeps books of its own.
//
// 3. Decisions. Each is the answer to one question.
//      open, close    gates(): are there gates at all? Who is outranked is no policy's choice.
//      grant          choose(): whose request goes next, or nobody's. It is asked again until it says nobody; what it chose counts
//                     as in flight at once. granted(): how many launches that covers. choose_copy(): the same for copies.
//      extend_run, end_run    extended(), overstaying(): more launches for the newest grant, or no further ones
//      ask_copies     copies_that_matter(): which copies of a client have to ask, too
//      wake_at        next_change_ns(): when the answer may be another one although no event comes. If that moment is forgotten, a
//                     client waits until something else happens; if it is not after now, the dispatcher spins.
//    Each client that goes on waiting is told why (hold), which reports show to its user.
//
// 4. What a policy never does. No clock: time is an argument, and never goes back. No thread, no lock, no input or output. No
//    allocation once it is made: a client waits for the decision. No randomness: the same events give the same decisions.
//    It trusts no prediction to hold: kUnknown is a length like any other, and a client that is silent holds others no longer than
//    a lease (client.progress sees to that).
//
// 5. What it need not do. A lower client cannot constrain a higher one (D20): LevelPolicy shows a policy the clients below its
//    level by what they were granted, and by no word of theirs. Nor can a policy hold the highest job: its gate is open.
//
// 6. How good is it? Two figures, always together: how much longer the high job takes than alone, and how much of the time that
//    it leaves idle the low jobs use (`fikit sim`). tests/support/claims.py asserts both. make_policy.cpp gives a policy its name.
//
// Prio is the plainest that shares: a lower client launches while no higher one has anything waiting or running. It predicts no
// gap. It is the baseline that a policy with prediction has to beat.
#pragma once

#include <algorithm>

#include "policy/base/level_policy.hpp"

namespace fikit::policy {

struct Boundary {
  std::size_t in_flight = 1;   // lower kernels, of all lower clients together
  std::int64_t idle_ns = 0;    // after the higher client's work ended
  bool whole_request = false;  // not before the higher client's host has waited for all its work: between its requests
};

// prio(k): {k}. Request-exclusive: whole_request. Tally (ASPLOS'25) without its slicing of kernels: {1, 100 us}.
class Prio final : public LevelPolicy {
 public:
  explicit Prio(const Options& options, const Boundary& boundary = {}) : LevelPolicy(options), boundary_(boundary) {}

 private:
  Client* choose(std::int64_t now_ns) override {
    std::size_t in_flight = 0;
    ClientId running = 0;
    for (const Client& client : clients().all()) {
      const std::size_t count = client.closed ? client.in_flight(now_ns) : 0;
      in_flight += count;
      if (count > 0) running = client.id;
    }
    const Client* holder = highest([&](const Client& client) { return holds(client, now_ns); });
    Client* best = in_flight < boundary_.in_flight ? first_waiting(now_ns) : nullptr;
    if (best != nullptr && best->grant_count == kMaxGrants) running = best->id;
    else if (best != nullptr && best->waits_here() && (holder == nullptr || !holder->outranks(*best))) return best;
    hold_waiting([&](const Client& client) { // nobody goes: each is told why
      if (holder != nullptr && holder->outranks(client)) return behind(*holder, now_ns);
      if (const Client* higher = keeps_from_gap(client, now_ns))
        return WaitReason{.reason = Reason::does_not_fit, .by = higher->id};
      if (best != nullptr && &client != best) return after(*best, client);
      return WaitReason{.reason = Reason::run_ahead, .by = running};
    });
    return nullptr;
  }

  // A reckoned end of work is a moment at which choose() may answer differently; so is the one at which a grant whose end nobody
  // reports counts as over.
  std::int64_t next_change_ns(std::int64_t now_ns) const override {
    std::int64_t next_ns = next_idle_ns(now_ns);
    for (const Client& client : clients().all()) {
      if (client.measuring) continue;
      for (const std::int64_t moment_ns :
           {client.progress.dry_ns(), client.progress.dry_ns() + boundary_.idle_ns, client.forget_ns()})
        if (moment_ns > now_ns) next_ns = std::min(next_ns, moment_ns);
    }
    return next_ns;
  }

  bool holds(const Client& higher, std::int64_t now_ns) const {
    if (boundary_.whole_request && !higher.at_rest) return true;
    return higher.progress.busy(now_ns) || now_ns < higher.progress.dry_ns() + boundary_.idle_ns;
  }

  Boundary boundary_;
};

} // namespace fikit::policy
