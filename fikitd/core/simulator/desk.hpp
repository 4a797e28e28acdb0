// Where the jobs' notes become events of the policy: in the order of their arrival, each with what the predictor says.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "costs.hpp"
#include "foresight/foresight.hpp"
#include "job.hpp"
#include "mailbox.hpp"
#include "policy/policy.hpp"
#include "predictor/model.hpp"
#include "predictor/statistics.hpp"
#include "reactions.hpp"

namespace fikit::simulator {

// What predictions rest on.
enum class Knowledge : std::uint8_t {
  context, // a kernel, after the last three
  kernel,  // a kernel, whatever was before it, as the paper has it
  truth,   // real durations, real slack, real arrivals
};

class Desk {
 public:
  // Throws std::invalid_argument for an unknown policy.
  Desk(const std::string& policy, const policy::Options& options, const Costs& costs, const Reactions& seen,
       Knowledge knowledge);

  void add(const Job& job, std::uint32_t number, std::int64_t t_ns);
  void send(const Note& note, std::int64_t now_ns) {
    (note.kind == Note::Kind::done || note.kind == Note::Kind::reached ? done_ : notes_).send(note, now_ns);
  }
  // When something arrives, or the policy wants to be asked again.
  std::int64_t next_ns() const { return std::min({notes_.next_ns(), done_.next_ns(), wake_ns_}); }
  // Everything that is on the pages by now, then, if that or the time is a reason, one decision. What it decided is valid until
  // the next call.
  const policy::Decisions& decide(std::int64_t now_ns);

  std::uint64_t grants() const { return grants_; }
  std::uint64_t decided() const { return decided_; } // so often the policy was asked
  // Why a job that stands at the gate does, as far as has been decided.
  policy::Reason held(std::uint32_t number) const;
  void keep_notes() { keeps_notes_ = true; }
  void measure() { measures_ = true; } // a kernel is known once it has run
  const std::vector<Note>& notes() const { return kept_; }
  const predictor::Rhythm& rhythm(std::uint32_t number) const { return clients_[number].foresight.rhythm(); }
  const predictor::Runs& runs(std::uint32_t number) const { return clients_[number].foresight.runs(); }
  const predictor::Statistics& misprediction() const { return misprediction_; } // |predicted - real duration|

 private:
  struct Mark {
    std::uint32_t number = 0;
    std::int64_t work_ns = 0; // by prediction, launched until then
  };
  struct Client {
    const Job* job = nullptr;
    predictor::Context context;
    predictor::Prediction next; // of the kernel at the gate
    bool asked = false;         // there was one since the last launch
    foresight::Foresight foresight;
    std::size_t step = 0;  // of the last launch
    std::uint64_t own = 0; // launches
    std::int64_t copy_ns = 0; // begin of the newest granted copy, which may stand behind its kernels until then
    std::deque<Mark> marks; // that stand on the device, oldest first
    std::int64_t work_ns = 0; // launched
    bool exact = true;        // all of it is known, as far as it may not be complete
    std::unordered_set<predictor::Identity> met; // in a run that measures
  };
  bool reached(Client& client, std::uint32_t mark, policy::Event& event);
  void look_at_marks(std::int64_t now_ns);
  bool arrive(const Note& note); // false: what it says is known already
  void launched(Client& client, const Note& note, policy::Event& event);
  void waited(Client& client, const Note& note, policy::Event& event);
  void copied(Client& client, const Note& note, policy::Event& event);
  const Truth* truth(const Client& client) const;
  predictor::Prediction predict(const Client& client, const Note& note) const;

  std::unique_ptr<policy::Policy> policy_;
  Knowledge knowledge_;
  predictor::Runs nothing_follows_; // known: of a job without a profile
  std::vector<Client> clients_;
  Mailbox notes_;
  Mailbox done_;
  Reaction late_;
  std::int64_t wake_ns_ = kNever;
  policy::Decisions decisions_;
  std::uint64_t launches_ = 0; // of all
  std::uint64_t grants_ = 0;
  std::uint64_t decided_ = 0;
  predictor::Statistics misprediction_;
  bool keeps_notes_ = false;
  bool measures_ = false;
  std::vector<Note> kept_;
};

} // namespace fikit::simulator
