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

constexpr std::size_t kLookBack = 1024; // places, from the newest one

std::uint32_t more(std::uint32_t count, std::uint32_t by) {
  constexpr auto kMost = std::numeric_limits<std::uint32_t>::max();
  return count > kMost - by ? kMost : count + by;
}

auto order(const Touch& touch) { return std::tuple(touch.allocation, touch.page, touch.length); }

// A new place only where there are not too many, and `claim` has room for it: a vector takes up to twice what is in it.
void add(std::vector<Touch>& touches, const Touch& touch, Claim& claim) {
  const auto found = std::ranges::lower_bound(touches, order(touch), {}, order);
  if (found != touches.end() && order(*found) == order(touch))
    found->count = more(found->count, touch.count);
  else if (touches.size() < Accesses::kMaxTouches && claim.more(2 * sizeof(Touch)))
    touches.insert(found, touch);
}

void add(std::vector<Free>& frees, const Free& free, Claim& claim) {
  const auto found = std::ranges::lower_bound(frees, free.allocation, {}, &Free::allocation);
  if (found != frees.end() && found->allocation == free.allocation)
    found->count = more(found->count, free.count);
  else if (frees.size() < Accesses::kMaxTouches && claim.more(2 * sizeof(Free)))
    frees.insert(found, free);
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
  Claim unlimited;
  for (std::size_t i = 0; i < into.steps.size(); ++i) {
    const Step& theirs = other.steps[i];
    Step& step = into.steps[i];
    if (step.duration_ns == 0) step.duration_ns = theirs.duration_ns;
    step.scans = more(step.scans, theirs.scans);
    for (const Touch& touch : theirs.touches) add(step.touches, touch, unlimited);
    for (const Free& free : theirs.frees) add(step.frees, free, unlimited);
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
    given_.clear();
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

// Of one hash and as long: a program that chose its hashes could make segments of any length look the same.
bool Accesses::same(const Segment& one, const Segment& other) {
  return one.hash == other.hash && one.launches.size() == other.launches.size();
}

bool Accesses::Followed::has(std::size_t i, const Segment& segment) const {
  const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : learnt.steps.size();
  return hashes[i] == segment.hash && end - begins[i] == segment.launches.size();
}

bool Accesses::follows() { return here_ != nullptr && here_->has(next_segment_, segments_.back()); }

void Accesses::passed() {
  place(segments_.back(), *here_, here_->begins[next_segment_]);
  step_ = here_->begins[next_segment_] + segments_.back().launches.size();
  next_segment_ = (next_segment_ + 1) % here_->hashes.size();
  pending_.clear();
  given_.clear();
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
    std::size_t alike = 0;
    while (alike < length && same(segments_[have - 1 - alike], segments_[have - 1 - alike - length])) ++alike;
    if (alike == length) return length;
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
  Followed* followed = find(first, segments, least);
  if (followed == nullptr) followed = make(first + least, segments, path);
  if (followed == nullptr) return;
  for (std::size_t i = 0; i < segments; ++i)
    for (const std::size_t pass : {first - segments, first})
      place(segments_[pass + (least + i) % segments], *followed, followed->begins[i]);
  pending_.clear();
  given_.clear();
  here_ = followed;
  following_ = &followed->learnt;
  next_segment_ = (segments - least) % segments;
  step_ = followed->begins[next_segment_];
  latest_ns_ = 0;
  look_at_length();
}

// first: number, in segments_, of the oldest of the newest `segments`; begin: with how many behind it the iteration begins.
Accesses::Followed* Accesses::find(std::size_t first, std::size_t segments, std::size_t begin) {
  for (const auto& each : known_) {
    std::size_t alike = 0;
    while (each->hashes.size() == segments && alike < segments && each->has(alike, segments_[first + (begin + alike) % segments])) ++alike;
    if (alike == segments) return each.get();
  }
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
      made->learnt.steps.push_back({.kernel = launch.kernel, .duration_ns = launch.duration_ns, .touches = {}, .frees = {}});
  }
  made->claim = Claim(room_);
  if (!made->claim.more(made->learnt.steps.size() * sizeof(Step))) return nullptr;
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
      if (segment.launches[i].kernel == said.kernel) put(steps[begin + i], said, followed.claim);
    }
  for (const Given& given : given_)
    if (given.number >= segment.first && given.number - segment.first < segment.launches.size())
      add(steps[begin + (given.number - segment.first)].frees, {.allocation = given.allocation, .count = 1}, followed.claim);
}

void Accesses::put(Step& step, const Place& place, Claim& claim) {
  if (place.pages == 0) {
    step.scans = more(step.scans, 1);
    return;
  }
  if (pages_.size() <= place.touch.allocation) pages_.resize(place.touch.allocation + std::size_t{1});
  pages_[place.touch.allocation] = std::max(pages_[place.touch.allocation], place.pages);
  add(step.touches, place.touch, claim);
}

void Accesses::scanned(std::uint64_t number, Identity kernel) {
  if (pending_.size() < kMaxPending) pending_.push_back({.number = number, .kernel = kernel, .touch = {}});
}

// Behind scanned() of that launch, and at most as many places behind it as threads that launch at the same time put between them.
void Accesses::touched(std::uint64_t number, std::uint32_t allocation, std::uint32_t page, std::uint32_t pages, std::uint32_t length) {
  if (allocation >= kMaxAllocations || page >= pages || length > pages - page || pending_.size() >= kMaxPending) return;
  std::size_t looked = 0;
  for (auto said = pending_.rbegin(); said != pending_.rend() && said->number >= number && looked < kLookBack; ++said, ++looked)
    if (said->number == number) {
      const Identity kernel = said->kernel;
      const Touch touch{.allocation = allocation, .page = page, .count = 1, .length = length};
      pending_.push_back({.number = number, .kernel = kernel, .touch = touch, .pages = pages});
      return;
    }
}

void Accesses::freed(std::uint64_t number, std::uint32_t allocation) {
  if (allocation >= kMaxAllocations) return;
  if (here_ != nullptr && number == waited_at_) { // behind the wait: that segment is in its place already
    std::vector<Step>& steps = here_->learnt.steps;
    add(steps[(step_ > 0 ? step_ : steps.size()) - 1].frees, {.allocation = allocation, .count = 1}, here_->claim);
  } else if (given_.size() < kMaxPending) {
    given_.push_back({.number = number, .allocation = allocation});
  }
}

// What is older than two of the longest iterations.
void Accesses::forget_old() {
  while (segments_.size() > 2 * kMaxSegments || (segments_.size() > 1 && launches_kept_ > 2 * kMaxLaunches)) {
    launches_kept_ -= segments_.front().launches.size();
    segments_.pop_front();
  }
  const std::uint64_t oldest = segments_.empty() ? 0 : segments_.front().first;
  while (!pending_.empty() && pending_.front().number < oldest) pending_.pop_front();
  while (!given_.empty() && given_.front().number < oldest) given_.pop_front();
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
  Reading reading;
  while (!read(reading, kMaxLaunches)) {}
  return std::move(reading).known();
}

bool Accesses::read(Reading& into, std::size_t steps) const {
  if (following_ == nullptr) {
    into = {};
    return true;
  }
  const Iteration& from = *following_;
  if (into.of_ != following_ || into.found_.iterations.front().path != from.path) {
    into = {};
    into.of_ = following_;
    into.found_.iterations.push_back({.path = from.path, .length_ns = 0, .passes = 0, .steps = {}});
    into.found_.iterations.front().steps.reserve(from.steps.size());
  }
  Iteration& to = into.found_.iterations.front();
  const auto begin = from.steps.begin() + static_cast<std::ptrdiff_t>(std::min(to.steps.size(), from.steps.size()));
  const auto count = std::min(steps, static_cast<std::size_t>(from.steps.end() - begin));
  to.steps.insert(to.steps.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  if (to.steps.size() < from.steps.size()) return false;
  to.length_ns = from.length_ns;
  to.passes = from.passes;
  into.found_.pages = pages_; // last: all places that were read are within these
  into.before_ = before_;
  return true;
}

AccessesLearnt Accesses::Reading::known() && {
  if (before_ == nullptr || found_.iterations.empty()) return std::move(found_);
  const Iteration& now = found_.iterations.front();
  AccessesLearnt before{.pages = before_->pages, .iterations = {}};
  for (const Iteration& each : before_->iterations)
    if (each.path == now.path && each.steps.size() == now.steps.size()) before.iterations.push_back(each);
  merge(found_, before);
  return std::move(found_);
}

} // namespace fikit::predictor
