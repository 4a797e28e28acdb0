#include "accesses.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "statistics.hpp"

namespace fikit::predictor {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

constexpr std::uint64_t kSeed = UINT64_C(0xcbf29ce484222325);

std::uint32_t more(std::uint32_t count, std::uint32_t by) {
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  return count > kMost - by ? kMost : count + by;
}

// Where the places of a step are kept, in order.
auto at(std::vector<Touch>& touches, const Touch& touch) {
  return std::ranges::lower_bound(touches, std::tuple(touch.allocation, touch.page), {},
                                  [](const Touch& each) { return std::tuple(each.allocation, each.page); });
}

// False: there are too many.
bool add(std::vector<Touch>& touches, const Touch& touch) {
  const auto found = at(touches, touch);
  if (found != touches.end() && found->allocation == touch.allocation && found->page == touch.page) {
    found->count = more(found->count, touch.count);
    return true;
  }
  if (touches.size() >= Accesses::kMaxTouches) return false;
  touches.insert(found, touch);
  return true;
}

double time_of(const Iteration& iteration) {
  return static_cast<double>(iteration.passes) * static_cast<double>(std::max<std::int64_t>(iteration.length_ns, 1));
}

void most_time_first(std::vector<Iteration>& iterations) {
  std::ranges::stable_sort(iterations, std::greater{}, time_of);
  if (iterations.size() > Accesses::kMaxIterations) iterations.resize(Accesses::kMaxIterations);
}

void merge(Iteration& into, const Iteration& other) {
  if (other.length_ns > 0) into.length_ns = into.length_ns > 0 ? std::min(into.length_ns, other.length_ns) : other.length_ns;
  into.passes += other.passes;
  for (std::size_t i = 0; i < into.steps.size(); ++i) {
    const Step& theirs = other.steps[i];
    Step& step = into.steps[i];
    if (step.duration_ns == 0) step.duration_ns = theirs.duration_ns;
    step.scans = more(step.scans, theirs.scans);
    for (const Touch& touch : theirs.touches) add(step.touches, touch);
  }
}

} // namespace

void merge(AccessesLearnt& into, const AccessesLearnt& other) {
  if (into.pages.size() < other.pages.size()) into.pages.resize(other.pages.size());
  for (std::size_t i = 0; i < other.pages.size(); ++i)
    into.pages[i] = std::max(into.pages[i], other.pages[i]);
  for (const Iteration& iteration : other.iterations) {
    const auto same = std::ranges::find_if(into.iterations, [&](const Iteration& each) {
      return each.path == iteration.path && each.steps.size() == iteration.steps.size();
    });
    if (same == into.iterations.end())
      into.iterations.push_back(iteration);
    else
      merge(*same, iteration);
  }
  most_time_first(into.iterations);
}

void Accesses::launched(std::uint64_t number, Identity kernel, std::int64_t duration_ns) {
  if (segment_.launches.empty()) {
    segment_.first = number;
    segment_.hash = kSeed;
  }
  // A number that does not follow, or a segment that is no iteration's: it is only counted until its wait.
  broken_ = broken_ || number != segment_.first + segment_.launches.size() || segment_.launches.size() == kMaxLaunches;
  if (broken_) return;
  segment_.hash = mixed(segment_.hash, kernel);
  segment_.launches.push_back({.kernel = kernel, .duration_ns = std::max<std::int64_t>(duration_ns, 0)});
}

void Accesses::missed() {
  broken_ = true;
  here_ = nullptr;
  following_ = nullptr;
}

void Accesses::waited(std::int64_t t_ns) {
  if (broken_) {
    missed();
    segments_.clear();
    pending_.clear();
    launches_kept_ = 0;
  }
  if (broken_ || segment_.launches.empty()) {
    segment_ = {};
    broken_ = false;
    return;
  }
  waited_at_ = segment_.first + segment_.launches.size() - 1;
  launches_kept_ += segment_.launches.size();
  segment_.end_ns = t_ns;
  segments_.push_back(std::exchange(segment_, {}));
  if (follows()) return passed();
  here_ = nullptr;
  following_ = nullptr;
  if (const std::size_t segments = period(); segments > 0) recognise(segments);
  forget_old();
}

bool Accesses::follows() { return here_ != nullptr && segments_.back().hash == here_->hashes[next_segment_]; }

void Accesses::passed() {
  place(segments_.back(), *here_, here_->begins[next_segment_]);
  step_ = here_->begins[next_segment_] + segments_.back().launches.size();
  next_segment_ = (next_segment_ + 1) % here_->hashes.size();
  pending_.clear();
  if (next_segment_ == 0) {
    step_ = 0;
    ++here_->learnt.passes;
  }
  look_at_length();
  forget_old();
}

// From the end of a segment to its end in the pass before.
void Accesses::look_at_length() {
  const std::size_t segments = here_->hashes.size();
  if (segments_.size() <= segments) return;
  const std::int64_t before_ns = segments_[segments_.size() - 1 - segments].end_ns;
  if (segments_.back().end_ns <= before_ns || before_ns < 0) return;
  latest_ns_ = std::min(segments_.back().end_ns - before_ns, kMaxNs);
  std::int64_t& length_ns = here_->learnt.length_ns;
  length_ns = length_ns > 0 ? std::min(length_ns, latest_ns_) : latest_ns_;
}

std::size_t Accesses::period() const {
  const std::size_t have = segments_.size();
  for (std::size_t length = 1; length <= std::min(kMaxSegments, have / 2); ++length) {
    std::size_t same = 0;
    while (same < length && segments_[have - 1 - same].hash == segments_[have - 1 - same - length].hash) ++same;
    if (same == length) return length;
  }
  return 0;
}

void Accesses::recognise(std::size_t segments) {
  // The row of hashes that is the least of those that begin at one of the segments.
  const std::size_t first = segments_.size() - segments;
  const auto hash_at = [&](std::size_t begin, std::size_t i) { return segments_[first + (begin + i) % segments].hash; };
  std::size_t least = 0;
  for (std::size_t begin = 1; begin < segments; ++begin)
    for (std::size_t i = 0; i < segments; ++i) {
      if (hash_at(begin, i) > hash_at(least, i)) break;
      if (hash_at(begin, i) < hash_at(least, i)) {
        least = begin;
        break;
      }
    }
  std::uint64_t path = kSeed;
  std::size_t steps = 0;
  for (std::size_t i = 0; i < segments; ++i) {
    path = mixed(path, hash_at(least, i));
    steps += segments_[first + i].launches.size();
  }
  if (steps > kMaxLaunches) return;
  Followed* followed = find(path, steps);
  if (followed == nullptr) followed = make(first + least, segments, path);
  if (followed == nullptr) return;
  for (std::size_t i = 0; i < segments; ++i)
    for (const std::size_t pass : {first - segments, first})
      place(segments_[pass + (least + i) % segments], *followed, followed->begins[i]);
  pending_.clear();
  here_ = followed;
  following_ = &followed->learnt;
  next_segment_ = (segments - least) % segments;
  step_ = followed->begins[next_segment_];
  latest_ns_ = 0;
  look_at_length();
}

Accesses::Followed* Accesses::find(std::uint64_t path, std::size_t steps) {
  for (const auto& each : known_)
    if (each->learnt.path == path && each->learnt.steps.size() == steps) return each.get();
  return nullptr;
}

// The least known one makes room. first: number, in segments_, of the segment with which it begins; those before it, of the newest
// `segments`, are its end.
Accesses::Followed* Accesses::make(std::size_t first, std::size_t segments, std::uint64_t path) {
  auto made = std::make_unique<Followed>();
  made->learnt.path = path;
  const std::size_t from = segments_.size() - segments;
  for (std::size_t i = 0; i < segments; ++i) {
    const Segment& segment = segments_[from + (first - from + i) % segments];
    made->hashes.push_back(segment.hash);
    made->begins.push_back(made->learnt.steps.size());
    for (const Launch& launch : segment.launches)
      made->learnt.steps.push_back({.kernel = launch.kernel, .duration_ns = launch.duration_ns, .touches = {}});
  }
  if (!claim_.more(made->learnt.steps.size() * sizeof(Step))) return nullptr;
  if (known_.size() == kMaxIterations)
    known_.erase(std::ranges::min_element(known_, {}, [](const auto& each) { return time_of(each->learnt); }));
  known_.push_back(std::move(made));
  return known_.back().get();
}

void Accesses::place(const Segment& segment, Followed& followed, std::size_t begin) {
  std::vector<Step>& steps = followed.learnt.steps;
  for (std::size_t i = 0; i < segment.launches.size(); ++i)
    if (segment.launches[i].duration_ns > 0) steps[begin + i].duration_ns = segment.launches[i].duration_ns;
  for (const Place& said : pending_)
    if (said.number >= segment.first && said.number - segment.first < segment.launches.size()) {
      const std::size_t i = said.number - segment.first;
      if (segment.launches[i].kernel == said.kernel) put(steps[begin + i], said);
    }
}

void Accesses::put(Step& step, const Place& place) {
  if (place.pages == 0) {
    step.scans = more(step.scans, 1);
    return;
  }
  if (pages_.size() <= place.touch.allocation) pages_.resize(place.touch.allocation + std::size_t{1});
  pages_[place.touch.allocation] = std::max(pages_[place.touch.allocation], place.pages);
  if (step.touches.size() == step.touches.capacity() && !claim_.more((step.touches.size() + 1) * sizeof(Touch))) return;
  add(step.touches, place.touch);
}

void Accesses::scanned(std::uint64_t number, Identity kernel) {
  if (pending_.size() < kMaxPending) pending_.push_back({.number = number, .kernel = kernel, .touch = {}});
}

// Behind scanned() of that launch.
void Accesses::touched(std::uint64_t number, std::uint32_t allocation, std::uint32_t page, std::uint32_t pages) {
  if (allocation >= kMaxAllocations || page >= pages || pending_.size() >= kMaxPending) return;
  for (auto said = pending_.rbegin(); said != pending_.rend() && said->number >= number; ++said)
    if (said->number == number) {
      const Identity kernel = said->kernel;
      pending_.push_back({.number = number, .kernel = kernel, .touch = {.allocation = allocation, .page = page, .count = 1}, .pages = pages});
      return;
    }
}

// What is older than two of the longest iterations.
void Accesses::forget_old() {
  while (segments_.size() > 2 * kMaxSegments || (segments_.size() > 1 && launches_kept_ > 2 * kMaxLaunches)) {
    launches_kept_ -= segments_.front().launches.size();
    segments_.pop_front();
  }
  const std::uint64_t oldest = segments_.empty() ? 0 : segments_.front().first;
  std::erase_if(pending_, [&](const Place& said) { return said.number < oldest; });
}

AccessesLearnt Accesses::learnt() const {
  AccessesLearnt found{.pages = pages_, .iterations = {}};
  for (const auto& each : known_)
    if (std::ranges::any_of(each->learnt.steps, [](const Step& step) { return step.scans > 0; })) found.iterations.push_back(each->learnt);
  most_time_first(found.iterations);
  if (found.iterations.empty()) found.pages.clear();
  return found;
}

AccessesLearnt Accesses::known() const {
  AccessesLearnt found{.pages = pages_, .iterations = {}};
  if (following_ == nullptr) return {};
  AccessesLearnt before{.pages = before_.pages, .iterations = {}};
  found.iterations.push_back(*following_);
  for (const Iteration& each : before_.iterations)
    if (each.path == following_->path && each.steps.size() == following_->steps.size()) before.iterations.push_back(each);
  merge(found, before);
  return found;
}

} // namespace fikit::predictor
