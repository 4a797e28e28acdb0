#include "recent.hpp"

#include <algorithm>

#include "statistics.hpp"

namespace fikit::predictor {
namespace {

std::uint8_t more(std::uint8_t count) { return static_cast<std::uint8_t>(std::min<std::size_t>(count + 1U, TimeQuantiles::kCount)); }

} // namespace

void Recent::add(std::int64_t ns) {
  ns_[next_] = static_cast<float>(ns);
  next_ = static_cast<std::uint8_t>((next_ + 1U) % TimeQuantiles::kCount);
  count_ = more(count_);
  own_ = more(own_);
}

TimeQuantiles Recent::times() const {
  TimeQuantiles times{};
  if (count_ == 0) return times;
  std::array<float, TimeQuantiles::kCount> sorted{}; // by insertion: there are eight
  for (std::size_t n = 0; n < count_; ++n) {
    std::size_t at = n;
    for (; at > 0 && sorted[at - 1] > ns_[n]; --at) sorted[at] = sorted[at - 1];
    sorted[at] = ns_[n];
  }
  for (std::size_t i = 0; i < TimeQuantiles::kCount; ++i)
    times.ns[i] = static_cast<std::int64_t>(sorted[static_cast<std::size_t>(TimeQuantiles::share(i) * count_)]);
  return times;
}

void Recent::expect(const Sketch& before, std::int64_t lowest_ns) {
  static constexpr std::array<std::size_t, TimeQuantiles::kCount> kMiddleFirst{3, 4, 2, 5, 1, 6, 0, 7};
  if (count_ > 0 || before.ns.empty()) return;
  for (const std::size_t i : kMiddleFirst) { // fewer than Times::kCount stand for more than one each
    const std::size_t at = static_cast<std::size_t>(TimeQuantiles::share(i) * static_cast<double>(before.ns.size()));
    add(std::clamp<std::int64_t>(before.ns[at], lowest_ns, kMaxNs));
  }
  own_ = 0;
}

Sketch Recent::sketch() const {
  Sketch own{.count = own_, .ns = {}};
  for (std::size_t back = 1; back <= own_; ++back)
    own.ns.push_back(static_cast<std::int64_t>(ns_[(next_ + TimeQuantiles::kCount - back) % TimeQuantiles::kCount]));
  std::sort(own.ns.begin(), own.ns.end());
  return own;
}

} // namespace fikit::predictor
