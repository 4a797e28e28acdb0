#include "desk.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace fikit::simulator {

using policy::EventKind;

Desk::Desk(const std::string& policy, const policy::Options& options, const Costs& costs, const Reactions& seen,
           Knowledge knowledge)
    : policy_(policy::make_policy(policy, options)),
      knowledge_(knowledge),
      nothing_follows_(foresight::Foresight::runs(options.tuning)),
      notes_(Reaction(costs.observe_ns, seen.observe_ns, seen.draw)),
      done_(Reaction(costs.done_ns, seen.done_ns, seen.draw)),
      late_(costs.late_ns, seen.late_ns, seen.draw) {
  if (policy_ == nullptr) throw std::invalid_argument(policy::unknown_policy(policy));
}

void Desk::add(const Job& job, std::uint32_t number, std::int64_t t_ns) {
  if (clients_.size() <= number) clients_.resize(number + 1);
  clients_[number].job = &job;
  clients_[number].foresight = foresight::Foresight(job.knows_rhythm() ? job.profile()->rhythm : predictor::Rhythm(),
                                                    job.knows_runs() ? job.profile()->runs : nothing_follows_);
  policy_->apply({.kind = EventKind::client_added, .client = number, .time_ns = t_ns, .priority = job.priority()});
  policy_->apply({.kind = EventKind::profiled, .client = number, .time_ns = t_ns, .outlook = clients_[number].foresight.profiled()});
  wake_ns_ = 0;
}

const Truth* Desk::truth(const Client& client) const {
  return knowledge_ == Knowledge::truth && client.job->profile() != nullptr ? &client.job->profile()->truth : nullptr;
}

predictor::Prediction Desk::predict(const Client& client, const Note& note) const {
  if (client.job->profile() == nullptr) return {};
  const auto& model = client.job->profile()->model;
  const predictor::Identity identity = client.job->trace().identity(note.step);
  if (knowledge_ == Knowledge::kernel) return model.predict(identity, {});
  predictor::Prediction predicted = model.predict(identity, client.context);
  if (knowledge_ == Knowledge::truth)
    predicted.duration_ns = predicted.duration_high_ns = client.job->duration_ns(note.step);
  return predicted;
}

void Desk::launched(Client& client, const Note& note, policy::Event& event) {
  const bool granted = note.kind == Note::Kind::granted;
  const predictor::Identity identity = client.job->trace().identity(note.step);
  const bool unknown = measures_ && client.met.insert(identity).second;
  const predictor::Prediction predicted = unknown ? predictor::Prediction{} : client.asked ? client.next : predict(client, note);
  client.asked = false;
  client.context.push(identity);
  client.step = note.step;
  ++client.own;
  ++launches_;
  if (predicted.duration_ns >= 0)
    misprediction_.add(std::abs(predicted.duration_ns - client.job->duration_ns(note.step)));
  client.work_ns += std::max<std::int64_t>(predicted.duration_ns, 0);
  client.exact = client.exact && predicted.duration_ns >= 0;
  if (note.mark != 0 && policy_->looks_ahead()) client.marks.push_back({note.mark, client.work_ns});
  event.kind = EventKind::launched;
  event.granted = granted;
  event.duration_ns = predicted.duration_ns;
  event.gap_ns = predicted.gap_ns;
  event.outlook = client.foresight.launched(note.t_ns, identity, predicted, false, granted);
  if (const Truth* known = truth(client)) {
    event.outlook.in_line_ns = client.job->trace().plan().kernel_gap_ns;
    event.outlook.slack.ns.fill(known->launches[note.step].slack_ns);
  }
}

void Desk::waited(Client& client, const Note& note, policy::Event& event) {
  event.kind = EventKind::drained;
  event.duration_ns = 0;
  client.exact = true;
  client.marks.clear();
  event.outlook = client.foresight.waited(note.t_ns, launches_ - client.own, note.began_ns);
  event.began_ns = note.began_ns;
  if (const Truth* known = truth(client)) {
    const Truth::Launch& last = known->launches[client.step];
    std::int64_t idle_ns = last.idle_ns;
    if (client.step == client.job->trace().last_kernel()) // of the pass: the next one begins when its request arrives
      idle_ns += std::max<std::int64_t>(0, std::min(client.job->arrival_ns(), note.t_ns + policy::kHorizonNs) - note.t_ns);
    event.outlook.slack.ns.fill(last.next_slack_ns);
    event.outlook.idle.ns.fill(idle_ns);
    event.outlook.span_ns = last.span_ns;
    event.outlook.tail_ns = last.tail_ns;
    event.outlook.after_ns = last.after_ns;
  }
}

void Desk::copied(Client& client, const Note& note, policy::Event& event) {
  event.kind = EventKind::copied;
  event.engine = client.job->engine(note.step);
  event.outlook = client.foresight.copied(event.engine, note.t_ns, client.job->bytes(note.step));
  const policy::Client* view = policy_->client(note.job);
  if (note.request != 0 && view != nullptr) client.copy_ns = std::max(note.t_ns, view->progress.finish_ns());
}

// False: it is known already.
bool Desk::reached(Client& client, std::uint32_t mark, policy::Event& event) {
  while (!client.marks.empty() && client.marks.front().number < mark) client.marks.pop_front();
  if (client.marks.empty() || client.marks.front().number > mark) return false;
  event.kind = EventKind::drained;
  event.waited = false;
  event.duration_ns = client.exact ? client.work_ns - client.marks.front().work_ns : policy::kUnknown;
  client.marks.pop_front();
  return true;
}

policy::Reason Desk::held(std::uint32_t number) const {
  const policy::Client* client = policy_->client(number);
  return client != nullptr && client->waiting ? policy_->held(*client).reason : policy::Reason::reaction;
}

// A mark that is not reached says as much as one that is: the work before it is still under way.
void Desk::look_at_marks(std::int64_t now_ns) {
  for (std::uint32_t number = 0; number < clients_.size(); ++number) {
    const Client& client = clients_[number];
    if (client.marks.empty() || !client.exact) continue;
    policy_->apply({.kind = EventKind::running,
                    .client = number,
                    .time_ns = now_ns,
                    .duration_ns = client.work_ns - client.marks.front().work_ns});
  }
}

bool Desk::arrive(const Note& note) {
  if (keeps_notes_) kept_.push_back(note);
  Client& client = clients_[note.job];
  policy::Event event{.client = note.job, .time_ns = note.t_ns, .request = note.request};
  switch (note.kind) {
    case Note::Kind::waiting:
      if (const policy::Engine engine = client.job->engine(note.step); engine != policy::Engine::compute) {
        event.kind = EventKind::waiting;
        event.engine = engine;
        event.duration_ns = client.foresight.copies(engine).expected_ns(client.job->bytes(note.step));
        break;
      }
      client.next = predict(client, note);
      event.kind = EventKind::waiting;
      event.duration_ns = client.next.duration_ns;
      event.outlook = client.foresight.waiting(client.job->trace().identity(note.step), client.next);
      client.asked = true;
      break;
    case Note::Kind::launched:
    case Note::Kind::granted: launched(client, note, event); break;
    case Note::Kind::drained: waited(client, note, event); break;
    case Note::Kind::copied: copied(client, note, event); break;
    case Note::Kind::done:
      event.kind = EventKind::grant_done;
      if (const policy::Engine engine = client.job->engine(note.step); engine != policy::Engine::compute)
        client.foresight.copies(engine).took(client.job->bytes(note.step), note.t_ns - client.copy_ns);
      break;
    case Note::Kind::reached:
      if (!reached(client, note.mark, event)) return false;
      break;
  }
  policy_->apply(event);
  return true;
}

// As the dispatcher does, the policy is asked when something moved, or when it wants to be: a mark that says nothing new is no
// second look just after a wait, when delays are expected to be cheaper than at its end.
const policy::Decisions& Desk::decide(std::int64_t now_ns) {
  bool moved = now_ns >= wake_ns_;
  while (!notes_.empty()) moved |= arrive(notes_.take()); // who looks at the pages sees all that is there
  while (done_.next_ns() <= now_ns) moved |= arrive(done_.take());
  look_at_marks(now_ns);
  if (!moved) {
    decisions_.clear();
    return decisions_;
  }
  policy_->decide(now_ns, decisions_);
  ++decided_;
  wake_ns_ = kNever;
  for (const policy::Decision& decision : decisions_.items()) {
    if (decision.kind == policy::DecisionKind::wake_at) wake_ns_ = decision.time_ns + late_.next_ns();
    if (decision.kind == policy::DecisionKind::grant) ++grants_;
  }
  return decisions_;
}

} // namespace fikit::simulator
