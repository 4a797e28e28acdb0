#include "runs.hpp"

#include <algorithm>

namespace fikit::predictor {

std::uint64_t Runs::place(Identity identity) const {
  std::uint64_t hash = identity;
  for (const Identity before : context_.last) {
    hash = (hash ^ before) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29;
  }
  return hash;
}

// Where the same four kernels have been followed by different ones, the shorter run and the longer work are expected: what
// is seen again and again wins in time.
void Runs::end_oldest() {
  const Begun& oldest = begun_[first_];
  const Run seen{.launches = static_cast<std::uint32_t>(count_), .work_ns = work_ns_ - oldest.before_ns};
  first_ = (first_ + 1) % kMaxLaunches;
  --count_;
  const auto it = known_.find(oldest.place);
  if (it == known_.end()) {
    if (known_.size() < kMaxPlaces) known_.emplace(oldest.place, Known{.run = seen, .seen = 1});
    return;
  }
  it->second.seen = std::min(it->second.seen + 1, 2U);
  Run& known = it->second.run;
  known.launches = seen.launches <= known.launches ? seen.launches : known.launches + 1;
  known.work_ns = std::max(seen.work_ns, known.work_ns - known.work_ns / 4);
}

void Runs::launched(Identity identity, std::int64_t duration_ns) {
  if (duration_ns < 0) {
    waited();
  } else {
    const std::int64_t end_ns = work_ns_ + duration_ns;
    while (count_ > 0 && (count_ == kMaxLaunches || end_ns - begun_[first_].before_ns > longest_ns_)) end_oldest();
    begun_[(first_ + count_++) % kMaxLaunches] = {.place = place(identity), .before_ns = work_ns_};
    work_ns_ = end_ns;
  }
  context_.push(identity);
}

void Runs::waited() {
  while (count_ > 0) end_oldest();
  work_ns_ = 0;
}

Run Runs::starting(Identity identity, std::int64_t duration_ns) const {
  const auto it = duration_ns < 0 || duration_ns > longest_ns_ ? known_.end() : known_.find(place(identity));
  if (it == known_.end() || it->second.run.launches == 1) return {.launches = 1, .work_ns = duration_ns};
  const Run& known = it->second.run;
  return {.launches = known.launches, .work_ns = std::clamp(known.work_ns, duration_ns, longest_ns_)};
}

void Runs::expect(const RunsLearnt& before) {
  for (const auto& [place, run] : before) {
    if (known_.size() == kMaxPlaces) return;
    const Run bounded{.launches = std::clamp<std::uint32_t>(run.launches, 1, kMaxLaunches),
                      .work_ns = std::clamp<std::int64_t>(run.work_ns, 0, longest_ns_)};
    known_.emplace(place, Known{.run = bounded, .seen = 0});
  }
}

RunsLearnt Runs::learnt() const {
  RunsLearnt learnt;
  for (const auto& [place, known] : known_)
    if (known.seen > 1) learnt.emplace_back(place, known.run);
  std::sort(learnt.begin(), learnt.end(), [](const auto& a, const auto& b) {
    return a.second.launches != b.second.launches ? a.second.launches > b.second.launches : a.first < b.first;
  });
  if (learnt.size() > kMaxLearnt) learnt.resize(kMaxLearnt);
  return learnt;
}

} // namespace fikit::predictor
