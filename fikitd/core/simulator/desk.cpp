#include "desk.hpp"

#include <cstdlib>
#include <stdexcept>

namespace fikit::simulator {

using policy::EventKind;

Desk::Desk(const std::string& policy, const policy::Options& options, const Costs& costs, bool with_context)
    : policy_(policy::make_policy(policy, options)),
      with_context_(with_context),
      notes_(costs.observe_ns),
      done_(costs.done_ns) {
  if (policy_ == nullptr) throw std::invalid_argument(policy::unknown_policy(policy));
}

void Desk::add(const Job& job, std::uint32_t number) {
  if (clients_.size() <= number) clients_.resize(number + 1);
  clients_[number].job = &job;
  policy_->apply({.kind = EventKind::client_added, .client = number, .time_ns = 0, .priority = job.priority()});
  wake_ns_ = 0;
}

predictor::Prediction Desk::predict(const Client& client, const Note& note) const {
  if (client.job->profile() == nullptr) return {};
  return client.job->profile()->predict(client.job->trace().identity(note.step),
                                        with_context_ ? client.context : predictor::Context{});
}

void Desk::arrive(const Note& note) {
  Client& client = clients_[note.job];
  policy::Event event{.client = note.job, .time_ns = note.t_ns, .request = note.request};
  switch (note.kind) {
    case Note::Kind::waiting:
      client.next = predict(client, note);
      event.kind = EventKind::waiting;
      event.duration_ns = client.next.duration_ns;
      break;
    case Note::Kind::launched:
    case Note::Kind::granted: {
      const bool granted = note.kind == Note::Kind::granted;
      const predictor::Prediction predicted = granted ? client.next : predict(client, note);
      client.context.push(client.job->trace().identity(note.step));
      const std::int64_t real_ns = client.job->trace().plan().steps[note.step].event->duration_ns;
      if (predicted.duration_ns >= 0) misprediction_.add(std::abs(predicted.duration_ns - real_ns));
      event.kind = EventKind::launched;
      event.granted = granted;
      event.duration_ns = predicted.duration_ns;
      event.gap_ns = predicted.gap_ns;
      break;
    }
    case Note::Kind::drained:
      event.kind = EventKind::drained;
      event.duration_ns = 0;
      break;
    case Note::Kind::done: event.kind = EventKind::grant_done; break;
  }
  policy_->apply(event);
}

const policy::Decisions& Desk::decide(std::int64_t now_ns) {
  while (notes_.next_ns() <= now_ns) arrive(notes_.take());
  while (done_.next_ns() <= now_ns) arrive(done_.take());
  policy_->decide(now_ns, decisions_);
  wake_ns_ = kNever;
  for (const policy::Decision& decision : decisions_.items()) {
    if (decision.kind == policy::DecisionKind::wake_at) wake_ns_ = decision.time_ns;
    if (decision.kind == policy::DecisionKind::grant) ++grants_;
  }
  return decisions_;
}

} // namespace fikit::simulator
