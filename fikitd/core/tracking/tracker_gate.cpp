// A client at its gate: requests, and the policy's answers. The request of a new kernel is left alone until the kernel's
// description is there.
#include <algorithm>

#include "client_tracker.hpp"

namespace fikit::tracking {

bool ClientTracker::describes_soon(std::uint32_t slot, std::int64_t t_ns, std::int64_t now_ns) {
  // A description comes by the socket a moment after the first use of the slot; while fikitd reads a profile, 5 ms later and more.
  constexpr std::int64_t kDescriptionNs = 20'000'000;
  if (slot == 0 || slot >= FIKIT_SLOTS || identities_[slot] != 0 || nameless_[slot]) return false;
  const bool just_used = t_ns > now_ns - kDescriptionNs && t_ns < now_ns + kDescriptionNs;
  nameless_[slot] = !just_used;
  return just_used;
}

bool ClientTracker::look_at_request(const Request& request, bool patient, std::int64_t now_ns, policy::Policy& policy) {
  undescribed_ = false;
  bool changed = false;
  if (posted_ != 0 && (!request.waiting || request.sequence != posted_)) {
    policy.apply({.kind = policy::EventKind::waiting_ended, .client = id_, .time_ns = now_ns, .request = posted_});
    posted_ = 0;
    changed = true;
  }
  if (!request.waiting) wait_book_.left(now_ns);
  if (!is_news(request)) return changed;
  const predictor::Identity kernel = identity(request.slot);
  undescribed_ = patient && describes_soon(request.slot, request.posted_ns, now_ns);
  if (undescribed_) return changed;
  // A request that stood there during another process's turn: for the policy its wait begins now.
  const bool kept = std::exchange(kept_, 0U) == request.sequence;
  const std::int64_t t_ns = std::clamp(kept ? now_ns : request.posted_ns, last_report_ns_, std::max(now_ns, last_report_ns_));
  goes_on(t_ns, policy);
  // A client that waits for its turn to be measured launches through an open gate later: that launch ends the gap, the wait included.
  if (request.engine == policy::Engine::compute && !measure_ && !kept) end_gap(t_ns, policy.client(id_));
  posted_ = request.sequence;
  first_ns_ = std::min(first_ns_, t_ns);
  if (kept) wait_book_.granted(now_ns);
  else wait_book_.posted(request.slot, std::clamp(request.posted_ns, t_ns, t_ns + lease_ns_)); // it may have come after this round began
  if (request.engine != policy::Engine::compute) {
    ask_for_copy(request, t_ns, policy);
    return true;
  }
  const predictor::Prediction& predicted = predict(request.slot, t_ns).completed;
  policy::Event event{.kind = policy::EventKind::waiting,
                      .client = id_,
                      .time_ns = t_ns,
                      .exclusive = collective_kernels_.is(request.slot),
                      .request = request.sequence,
                      .duration_ns = predicted.duration_ns};
  if (policy.looks_ahead() && page_.knows_runs()) event.outlook = forecaster_.waiting(kernel, predicted);
  tell(event, policy);
  return true;
}

bool ClientTracker::keep_request(const Request& request, const policy::WaitReason& hold, bool patient, std::int64_t now_ns, policy::Policy& policy) {
  Request shown = request;
  shown.waiting = request.waiting && request.engine != policy::Engine::compute;
  if (!shown.waiting && request.waiting) { // hidden from the policy, but still at the gate: wait_book_ is not told that it has left
    undescribed_ = false;
    if (posted_ != 0)
      policy.apply({.kind = policy::EventKind::waiting_ended, .client = id_, .time_ns = now_ns, .request = std::exchange(posted_, 0U)});
    const bool is_new = request.sequence != kept_ && request.sequence != granted_;
    if (is_new) {
      kept_ = request.sequence;
      const std::int64_t t_ns = std::clamp(request.posted_ns, last_report_ns_, std::max(now_ns, last_report_ns_));
      if (!measure_) end_gap(t_ns, policy.client(id_));
      first_ns_ = std::min(first_ns_, t_ns);
      wait_book_.posted(request.slot, t_ns);
    }
    if (kept_ == request.sequence) wait_book_.decided(hold, now_ns);
    return is_new;
  }
  return look_at_request(shown, patient, now_ns, policy);
}

void ClientTracker::gate_opened(std::int64_t now_ns) {
  closed_ = false;
  wait_book_.granted(now_ns);
  owes_launch_ = false;
  grant_watch_.forget();
  kept_ = 0;
  posted_ = 0; // the waiting launch goes through; if the gate closes before the host noticed, its request counts as new
  end_run();
}

bool ClientTracker::grant(std::uint32_t request, std::uint32_t launches, std::int64_t now_ns) {
  granted_ = request;
  owes_launch_ = true;
  if (request != copy_.request) switch_watch_.granted(now_ns);
  wait_book_.granted(now_ns);
  note_grant(now_ns);
  posted_ = 0;
  count_kernel(); // and again at its launch: other clients must not believe to be alone on the GPU between the two
  run_ = {.until = launches > 1 ? page_.launches() + launches : 0, .lease_ns = now_ns + lease_ns_, .taken = false};
  page_.grant(request, run_.until);
  return request != copy_.request;
}

// No host waits for this word of the page: a launch that asks meanwhile gets a grant of its own.
void ClientTracker::extend_run(std::uint32_t launches) {
  if (run_.until == 0) return; // the grant's lease is over
  run_.until += launches;
  page_.extend_run(run_.until);
}

void ClientTracker::end_run() {
  if (run_.until == 0) return;
  run_.until = 0;
  page_.end_run();
}

// A collective kernel waits for others: how long it takes says nothing of its work.
void ClientTracker::watch_grant(std::uint32_t request, std::uint32_t slot, const predictor::DurationPrediction& predicted, const policy::Client* view) {
  if (view == nullptr || collective_kernels_.is(slot)) return;
  grant_watch_.launched({.request = request,
                         .slot = slot,
                         .duration_ns = predicted.duration_ns,
                         .longest_ns = std::max(predicted.duration_ns, predicted.duration_longest_ns),
                         .end_ns = view->reckoned_end_ns(request).value_or(view->progress.finish_ns()),
                         .works_ns = traffic_.works_ns});
}

// The grant that a launch was made on. A launch that did not ask belongs to the newest grant, also where its thread read the page's
// words while that grant was being written.
std::uint32_t ClientTracker::grant_of(std::uint32_t said) {
  const bool first = !std::exchange(run_.taken, true);
  if (launches_ >= run_.until) return said;
  if (!first) ++passed_;
  return granted_;
}

} // namespace fikit::tracking
