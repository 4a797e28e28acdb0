#include "play.hpp"

#include <algorithm>

#include "../host.hpp"

namespace replay {
namespace {

constexpr int64_t kNapNs = 50'000'000;  // a sleeping job looks so often whether it is to end

// Plays what is left of the host's plan. False: stopped before the end.
bool play_on(Host& host, Target& target, const std::atomic<bool>& stopped) {
  while (!host.finished()) {
    const Step& step = host.step();
    const bool work = step.event->kind != EventKind::synchronize;
    if (step.joins >= 0) host.not_before(target.wait_for_mark(step.joins) + step.joins_after_ns);
    for (int64_t now_ns = target.now_ns(); host.due_ns() - now_ns > kNapNs && !stopped; now_ns = target.now_ns())
      target.sleep_until(now_ns + kNapNs);
    if (stopped) return false;
    target.sleep_until(host.due_ns());
    host.calls(target.now_ns());
    if (work) target.issue(step);
    if (step.mark >= 0) {
      target.mark(step);
    } else if (step.waits) {
      if (work) {
        target.wait_for_stream(step.event->stream);
      } else if (step.behind >= 0) {
        target.wait_for_number(step.behind);
      } else {
        target.wait_for_all();
      }
    }
    host.returns(target.now_ns());
  }
  return true;
}

}  // namespace

int64_t play(const Plan& plan, Target& target) {
  const std::atomic<bool> never = false;
  Host host(plan);
  host.begin(target.now_ns());
  play_on(host, target, never);
  target.wait_for_all();
  return target.span_ns();
}

std::vector<Request> live(const Plan& pass, Target& target, const Requests& requests, const std::atomic<bool>& stopped) {
  std::vector<Request> ended;
  Host host(pass);
  const int64_t begin_ns = target.now_ns();
  while (requests.count == 0 || ended.size() < requests.count) {
    const int64_t now_ns = target.now_ns() - begin_ns;
    const int64_t arrival_ns = requests.arrivals.empty() ? now_ns : requests.arrivals[ended.size()];
    host.begin(begin_ns + std::max(now_ns, arrival_ns));
    if (!play_on(host, target, stopped)) break;
    target.wait_for_all();
    ended.push_back({arrival_ns, target.now_ns() - begin_ns});
  }
  return ended;
}

}  // namespace replay
