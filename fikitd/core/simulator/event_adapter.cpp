#include "event_adapter.hpp"

#include <stdexcept>
#include <utility>

namespace fikit::simulator {

using policy::EventKind;

EventAdapter::EventAdapter(const std::string& policy, const Terms& terms, const Costs& costs, const Reactions& seen)
    : policy_(terms.make ? std::make_unique<policy::Policy>(terms.make, terms.options) : policy::make_policy(policy, terms.options)),
      terms_(terms),
      traffic_(terms.options.tuning),
      notes_(Reaction(costs.observe_ns, seen.observe_ns, seen.draw)),
      done_(Reaction(costs.done_ns, seen.done_ns, seen.draw)),
      late_(costs.late_ns, seen.late_ns, seen.draw),
      looks_ns_(costs.done_ns) {
  if (policy_ == nullptr) throw std::invalid_argument(policy::unknown_policy(policy));
}

void EventAdapter::add(Job& job, std::uint32_t number, std::int64_t t_ns) {
  if (clients_.size() <= number) clients_.resize(number + 1);
  Client& client = clients_[number];
  client.job = &job;
  client.knowing = std::make_unique<Knowing>(job, terms_.knowledge, forgets_, misprediction_);
  client.words = std::make_unique<tracking::PageWords>(*job.page(), FIKIT_PROTOCOL_VERSION);
  tracking::Tracked tracked;
  tracked.id = number;
  tracked.priority = job.priority();
  tracked.look_ns = looks_ns_;
  tracked.overlaps = terms_.overlaps;
  tracked.measure = terms_.measures;
  client.tracker = std::make_unique<tracking::ClientTracker>(std::move(tracked), *client.words, terms_.options, t_ns, traffic_);
  client.tracker->set_insight(client.knowing.get());
  const std::vector<std::size_t>& described = job.trace().described();
  for (std::size_t i = 0; i < described.size(); ++i)
    client.tracker->describe(static_cast<std::uint32_t>(i) + 1, job.trace().kernel(described[i]));
  if (job.profile() != nullptr) {
    client.tracker->set_profile({.alone = job.profile()->model, .beside = {}, .doubtful = {}, .borrowed = {}}, {}, nullptr);
    using forecaster::Forecaster;
    const policy::Tuning& tuning = terms_.options.tuning;
    client.tracker->set_forecaster({Forecaster::rhythm(tuning, job.knows_rhythm() ? job.profile()->rhythm : predictor::Rhythm()),
                                   job.knows_runs() ? job.profile()->runs : Forecaster::runs(tuning)});
  }
  policy_->apply({.kind = EventKind::client_added,
                  .client = number,
                  .time_ns = t_ns,
                  .priority = job.priority(),
                  .overlaps = terms_.overlaps});
  policy_->apply({.kind = EventKind::profiled, .client = number, .time_ns = t_ns, .outlook = client.tracker->profiled()});
  traffic_.tell_now(*policy_);
  wake_ns_ = 0;
}

policy::Reason EventAdapter::held(std::uint32_t number) const {
  const policy::Client* client = policy_->client(number);
  return client != nullptr && client->waiting ? policy_->held(*client).reason : policy::Reason::reaction;
}

void EventAdapter::arrive(const Note& note, std::int64_t now_ns) {
  Client& client = clients_[note.job];
  if (note.kind == Note::Kind::report) {
    client.knowing->at(note.step);
    client.tracker->take(note.report, now_ns, *policy_);
  } else if (note.kind == Note::Kind::reached) {
    (*client.job->page()).marks[note.report.slot % FIKIT_MARKS] = note.report.slot;
  } // a request is on the page
}

// As the dispatcher does, the policy is asked when something moved, or when it wants to be: a mark that says nothing new is no
// second look just after a wait, when delays are expected to be cheaper than at its end.
const policy::Decisions& EventAdapter::decide(std::int64_t now_ns) {
  bool moved = now_ns >= wake_ns_;
  while (done_.next_ns() <= now_ns) {
    const Note note = done_.take();
    moved |= note.kind == Note::Kind::report;
    arrive(note, now_ns);
  }
  for (Client& client : clients_) {
    if (client.tracker == nullptr) continue;
    client.tracker->end_old_run(now_ns);
    client.tracker->begin_round(now_ns);
    moved |= client.tracker->look_at_marks(now_ns, *policy_);
  }
  while (!notes_.empty()) { // who looks at the pages sees all that is there
    const Note note = notes_.take();
    moved |= note.kind == Note::Kind::report;
    arrive(note, now_ns);
  }
  for (Client& client : clients_) {
    if (client.tracker == nullptr) continue;
    moved |= client.tracker->look_at_marks(now_ns, *policy_);
    client.tracker->take_ran(); // nobody asks by whom a job was delayed
    const tracking::Request request = client.words->request();
    if (request.waiting) client.knowing->at(client.job->step());
    moved |= client.tracker->look_at_request(request, false, now_ns, *policy_);
  }
  decisions_.clear();
  if (!moved) return decisions_;
  traffic_.tell(*policy_);
  policy_->decide(now_ns, decisions_);
  ++decided_;
  wake_ns_ = kNever;
  bool gates_moved = false;
  for (const policy::Decision& decision : decisions_.items()) {
    carry_out(decision, now_ns);
    gates_moved |= decision.kind == policy::DecisionKind::open || decision.kind == policy::DecisionKind::close;
  }
  if (gates_moved) tell_clients();
  return decisions_;
}

void EventAdapter::carry_out(const policy::Decision& decision, std::int64_t now_ns) {
  if (decision.kind == policy::DecisionKind::wake_at) {
    wake_ns_ = decision.time_ns + late_.next_ns();
    return;
  }
  Client& client = clients_[decision.client];
  switch (decision.kind) {
    case policy::DecisionKind::open:
      client.tracker->gate_opened(now_ns);
      client.words->open_gate();
      break;
    case policy::DecisionKind::close:
      client.tracker->gate_closed();
      client.words->close_gate(kNever);
      break;
    case policy::DecisionKind::ask_copies: client.words->ask_copies(decision.engines); break;
    case policy::DecisionKind::grant:
      ++grants_;
      client.tracker->grant(decision.request, decision.launches, now_ns);
      break;
    case policy::DecisionKind::extend_run: client.tracker->extend_run(decision.launches); break;
    case policy::DecisionKind::end_run: client.tracker->end_run(); break;
    case policy::DecisionKind::wake_at: break;
  }
}

void EventAdapter::tell_clients() {
  const auto closed = [](const Client& client) { return client.tracker != nullptr && client.tracker->closed(); };
  const bool any = std::any_of(clients_.begin(), clients_.end(), closed);
  for (const Client& client : clients_)
    if (client.tracker != nullptr) client.words->set_marker_interval(client.tracker->awaited_by(any) ? terms_.marker_interval : 0);
}

} // namespace fikit::simulator
