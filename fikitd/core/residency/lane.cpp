#include "lane.hpp"

#include <algorithm>
#include <iterator>

namespace fikit::residency {

std::optional<Lane::Part> Lane::ends_after(std::int64_t at_ns) const {
  if (busy_.empty()) return std::nullopt;
  const std::int64_t turn_ns = at_ns / period_ns_ * period_ns_;
  auto found = busy_.upper_bound(at_ns - turn_ns);
  if (found != busy_.begin() && std::prev(found)->second > at_ns - turn_ns) --found;
  if (found != busy_.end()) return Part{.begin_ns = found->first + turn_ns, .end_ns = found->second + turn_ns};
  const std::int64_t next_ns = turn_ns + period_ns_;
  return Part{.begin_ns = busy_.begin()->first + next_ns, .end_ns = busy_.begin()->second + next_ns};
}

std::optional<Lane::Part> Lane::begins_before(std::int64_t at_ns) const {
  if (busy_.empty()) return std::nullopt;
  const std::int64_t turn_ns = at_ns / period_ns_ * period_ns_;
  const auto found = busy_.lower_bound(at_ns - turn_ns);
  if (found != busy_.begin()) return Part{.begin_ns = std::prev(found)->first + turn_ns, .end_ns = std::prev(found)->second + turn_ns};
  const std::int64_t last_ns = turn_ns - period_ns_;
  return Part{.begin_ns = std::prev(busy_.end())->first + last_ns, .end_ns = std::prev(busy_.end())->second + last_ns};
}

std::optional<std::int64_t> Lane::earliest(std::int64_t from_ns, std::int64_t until_ns, std::int64_t length_ns) const {
  std::int64_t begin_ns = from_ns;
  while (begin_ns + length_ns <= until_ns) {
    const auto busy = ends_after(begin_ns);
    if (!busy || begin_ns + length_ns <= busy->begin_ns) return begin_ns;
    begin_ns = busy->end_ns;
  }
  return std::nullopt;
}

std::optional<std::int64_t> Lane::latest(std::int64_t from_ns, std::int64_t until_ns, std::int64_t length_ns) const {
  std::int64_t end_ns = until_ns;
  while (from_ns + length_ns <= end_ns) {
    const auto busy = begins_before(end_ns);
    if (!busy || busy->end_ns <= end_ns - length_ns) return end_ns - length_ns;
    end_ns = busy->begin_ns;
  }
  return std::nullopt;
}

void Lane::take(std::int64_t begin_ns, std::int64_t length_ns) {
  const std::int64_t begin = begin_ns % period_ns_, end = begin + length_ns;
  add(begin, std::min(end, period_ns_));
  if (end > period_ns_) add(0, end - period_ns_);
}

void Lane::give_back(std::int64_t begin_ns, std::int64_t length_ns) {
  const std::int64_t begin = begin_ns % period_ns_, end = begin + length_ns;
  remove(begin, std::min(end, period_ns_));
  if (end > period_ns_) remove(0, end - period_ns_);
}

void Lane::add(std::int64_t begin_ns, std::int64_t end_ns) {
  auto next = busy_.lower_bound(begin_ns);
  if (next != busy_.end() && next->first == end_ns) {
    end_ns = next->second;
    next = busy_.erase(next);
  }
  if (next != busy_.begin() && std::prev(next)->second == begin_ns)
    std::prev(next)->second = end_ns;
  else
    busy_.emplace_hint(next, begin_ns, end_ns);
}

void Lane::remove(std::int64_t begin_ns, std::int64_t end_ns) {
  const auto found = std::prev(busy_.upper_bound(begin_ns));
  const std::int64_t last_ns = found->second;
  found->second = begin_ns;
  if (found->first == begin_ns) busy_.erase(found);
  if (end_ns < last_ns) busy_.emplace(end_ns, last_ns);
}

} // namespace fikit::residency
