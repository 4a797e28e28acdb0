#include "precedence.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace fikit::placement {
namespace {

// Does `job` go before `other`, which is before it until now?
bool passes(const Contender& job, const Contender& other) {
  const double part = job.is_new || other.is_new ? 1 : kPassesBelow;
  return job.rest_s < part * other.rest_s;
}

void sort(std::span<const Contender> contenders, std::span<std::size_t> order) {
  for (std::size_t i = 0; i < contenders.size(); ++i) { // insertion: there are few
    std::size_t at = i;
    for (; at > 0 && passes(contenders[i], contenders[order[at - 1]]); --at) order[at] = order[at - 1];
    order[at] = i;
  }
}

bool same_jobs(std::span<const Contender> contenders, const Precedence& last) {
  return contenders.size() == last.jobs && std::ranges::none_of(contenders, &Contender::is_new);
}

} // namespace

Precedence later(Precedence precedence, double passed_s) {
  constexpr double kRoundingS = 1e-6;
  if (!(precedence.turn_s > 0)) return precedence;
  precedence.turn_s -= passed_s;
  return precedence.turn_s > kRoundingS ? precedence : Precedence{};
}

Precedence choose(const Slowdowns& slowdowns, std::span<const Contender> contenders, const Precedence& last, std::span<std::size_t> order) {
  const std::size_t count = std::min(contenders.size(), kMostResidents);
  contenders = contenders.first(count);
  sort(contenders, order);
  std::array<Resident, kMostResidents> residents;
  for (std::size_t i = 0; i < count; ++i) residents[i] = {.rest_s = contenders[i].rest_s, .load = contenders[i].load};
  const std::span<const Resident> jobs = std::span(residents).first(count);
  const Ends equal = replay(slowdowns, Priorities::equal, jobs);
  Precedence chosen{.jobs = count, .ends = equal};
  if (count < 2 || !std::ranges::all_of(contenders, [](double rest_s) { return std::isfinite(rest_s); }, &Contender::rest_s)) return chosen;
  const bool starved = std::ranges::any_of(contenders, [](double waited_s) { return waited_s >= kPatienceS; }, &Contender::waited_s);
  if (last.turn_s > 0 || starved) {
    chosen.turn_s = last.turn_s > 0 ? last.turn_s : kTurnS;
    return chosen;
  }
  const Ends ordered = replay(slowdowns, Priorities::ordered, jobs);
  const bool stays = same_jobs(contenders, last) && last.priorities == Priorities::equal && last.turn_s == 0;
  const bool kept = same_jobs(contenders, last) && last.priorities == Priorities::ordered;
  const double below = kept ? kSwitchesBelow : stays ? 1 / kSwitchesBelow : 1;
  if (!(equal.sum_s < below * ordered.sum_s)) {
    chosen.priorities = Priorities::ordered;
    chosen.ends = ordered;
  }
  return chosen;
}

} // namespace fikit::placement
