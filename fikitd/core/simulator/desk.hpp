// Where the jobs' notes become events of the policy: in the order of their arrival, each with what the predictor says.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "costs.hpp"
#include "job.hpp"
#include "mailbox.hpp"
#include "policy/policy.hpp"
#include "predictor/model.hpp"
#include "predictor/statistics.hpp"

namespace fikit::simulator {

class Desk {
 public:
  // Throws std::invalid_argument for an unknown policy.
  Desk(const std::string& policy, const policy::Options& options, const Costs& costs, bool with_context);

  void add(const Job& job, std::uint32_t number);
  void send(const Note& note, std::int64_t now_ns) {
    (note.kind == Note::Kind::done ? done_ : notes_).send(note, now_ns);
  }
  // When something arrives, or the policy wants to be asked again.
  std::int64_t next_ns() const { return std::min({notes_.next_ns(), done_.next_ns(), wake_ns_}); }
  // Everything that has arrived by now, then one decision. What it decided is valid until the next call.
  const policy::Decisions& decide(std::int64_t now_ns);

  std::uint64_t grants() const { return grants_; }
  const predictor::Statistics& misprediction() const { return misprediction_; } // |predicted - real duration|

 private:
  struct Client {
    const Job* job = nullptr;
    predictor::Context context;
    predictor::Prediction next; // of the kernel at the gate
  };
  void arrive(const Note& note);
  predictor::Prediction predict(const Client& client, const Note& note) const;

  std::unique_ptr<policy::Policy> policy_;
  bool with_context_;
  std::vector<Client> clients_;
  Mailbox notes_;
  Mailbox done_;
  std::int64_t wake_ns_ = kNever;
  policy::Decisions decisions_;
  std::uint64_t grants_ = 0;
  predictor::Statistics misprediction_;
};

} // namespace fikit::simulator
