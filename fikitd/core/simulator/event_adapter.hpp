// Where the jobs' reports become events of the policy: the dispatcher's trackers, driven by what arrives from the jobs' pages and
// in manual time. Only what is not the dispatcher's is here: how long its reactions take, and what an oracle knows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "costs.hpp"
#include "job.hpp"
#include "knowledge.hpp"
#include "mailbox.hpp"
#include "policy/policy.hpp"
#include "predictor/statistics.hpp"
#include "reactions.hpp"
#include "tracking/client_tracker.hpp"

namespace fikit::simulator {

class EventAdapter {
 public:
  struct Terms {
    policy::Options options;
    policy::Policy::Make make; // a policy without a name
    std::uint32_t marker_interval = 0; // as Dispatcher has it
    Knowledge knowledge = Knowledge::context;
    bool overlaps = false; // the device has MPS
    bool measures = false; // the jobs' profiles are about to be made: where their hosts wait is learnt whatever the policy
  };
  // Throws std::invalid_argument for an unknown policy.
  EventAdapter(const std::string& policy, const Terms& terms, const Costs& costs, const Reactions& seen);

  void add(Job& job, std::uint32_t number, std::int64_t t_ns);
  void send(const Note& note, std::int64_t now_ns) {
    const bool seen_later = note.kind == Note::Kind::reached || note.report.kind == FIKIT_ENTRY_DONE;
    (seen_later ? done_ : notes_).send(note, now_ns);
  }
  // When something arrives, or the policy wants to be asked again.
  std::int64_t next_ns() const { return std::min({notes_.next_ns(), done_.next_ns(), wake_ns_}); }
  // A round of the dispatcher: everything that is on the pages by now, then, if that or the time is a reason, one decision, which is
  // carried out on the pages. What it decided is valid until the next call.
  const policy::Decisions& decide(std::int64_t now_ns);

  std::uint64_t grants() const { return grants_; }
  std::uint64_t decided() const { return decided_; } // so often the policy was asked
  // Why a job that stands at the gate does, as far as has been decided.
  policy::Reason held(std::uint32_t number) const;
  void forget_kernels() { forgets_ = true; } // a kernel is known once it has run
  const predictor::Rhythm& rhythm(std::uint32_t number) const { return clients_[number].tracker->forecaster().rhythm(); }
  forecaster::Learnt learnt(std::uint32_t number) const { return clients_[number].tracker->learnt(); } // as its profile keeps it
  const predictor::Runs& runs(std::uint32_t number) const { return clients_[number].tracker->forecaster().runs(); }
  const predictor::Statistics& misprediction() const { return misprediction_; } // |predicted - real duration|

  const policy::Device& device() const { return policy_->device(); } // as the policy knows it

 private:
  struct Client {
    Job* job = nullptr;
    std::unique_ptr<Knowing> knowing;
    std::unique_ptr<tracking::PageWords> words;
    std::unique_ptr<tracking::ClientTracker> tracker;
  };
  void arrive(const Note& note, std::int64_t now_ns);
  void carry_out(const policy::Decision& decision, std::int64_t now_ns);
  void tell_clients();

  std::unique_ptr<policy::Policy> policy_;
  Terms terms_;
  tracking::Traffic traffic_;
  std::vector<Client> clients_; // by number; without a tracker: not managed
  Mailbox notes_;
  Mailbox done_;
  Reaction late_;
  std::int64_t looks_ns_; // a dispatcher looks so often at where a mark is to be
  std::int64_t wake_ns_ = kNever;
  policy::Decisions decisions_;
  std::uint64_t grants_ = 0;
  std::uint64_t decided_ = 0;
  predictor::Statistics misprediction_;
  bool forgets_ = false;
};

} // namespace fikit::simulator
