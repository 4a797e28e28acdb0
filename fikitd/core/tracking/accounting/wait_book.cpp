#include "wait_book.hpp"

#include <algorithm>

namespace fikit::tracking {
namespace {

using policy::WaitReason;
using policy::Reason;

bool depends_on_kernel(Reason reason) {
  return reason == Reason::does_not_fit || reason == Reason::budget_spent || reason == Reason::unknown;
}

} // namespace

void WaitBook::posted(std::uint32_t slot, std::int64_t t_ns) {
  if (waiting_) passed(left_ns_ != 0 ? left_ns_ : t_ns);
  account_.at_gate(t_ns);
  waiting_ = true;
  left_ns_ = 0;
  slot_ = slot;
  since_ns_ = t_ns;
  hold_ = {.reason = Reason::reaction, .by = self_};
}

void WaitBook::decided(const WaitReason& hold, std::int64_t now_ns) {
  if (!waiting_ || hold == hold_) return;
  put_down(now_ns);
  hold_ = hold;
}

void WaitBook::granted(std::int64_t now_ns) { decided({.reason = Reason::reaction, .by = self_}, now_ns); }

void WaitBook::left(std::int64_t now_ns) {
  if (!waiting_ || left_ns_ != 0) return;
  left_ns_ = now_ns;
  account_.left_gate(now_ns);
}

void WaitBook::passed(std::int64_t t_ns) {
  if (!waiting_) return;
  account_.left_gate(t_ns);
  put_down(t_ns);
  waiting_ = false;
}

void WaitBook::stood(policy::ClientId by, std::int64_t t_ns, std::int64_t length_ns) {
  WaitSum& sum = sum_of({.reason = Reason::lower_work, .by = by}, 0);
  ++sum.count;
  sum.total_ns += length_ns;
  journal_.add({.t_ns = t_ns,
                .length_ns = length_ns,
                .predicted_ns = 0,
                .by = by,
                .slot = 0,
                .kind = JournalKind::wait,
                .reason = static_cast<std::uint8_t>(Reason::lower_work)});
}

JournalEvent WaitBook::event(std::int64_t until_ns) const {
  return {.t_ns = since_ns_,
          .length_ns = until_ns - since_ns_,
          .predicted_ns = 0,
          .by = hold_.by,
          .slot = static_cast<std::uint16_t>(slot_),
          .kind = JournalKind::wait,
          .reason = static_cast<std::uint8_t>(hold_.reason)};
}

std::optional<JournalEvent> WaitBook::going_on(std::int64_t now_ns) const {
  if (!waiting_ || until_ns(now_ns) <= since_ns_) return std::nullopt;
  return event(until_ns(now_ns));
}

void WaitBook::put_down(std::int64_t until_ns) {
  const std::int64_t cost_ns = account_.take_gate_cost(until_ns);
  const std::int64_t length_ns = until_ns - since_ns_;
  if (length_ns <= 0) return;
  WaitSum& sum = sum_of(hold_, slot_);
  ++sum.count;
  sum.total_ns += length_ns;
  sum.cost_ns += cost_ns;
  journal_.add(event(until_ns));
  since_ns_ = until_ns;
}

WaitSum& WaitBook::sum_of(const WaitReason& hold, std::uint32_t slot) {
  const std::uint32_t kernel = depends_on_kernel(hold.reason) ? slot : 0;
  const auto end = named_.begin() + static_cast<std::ptrdiff_t>(named_count_);
  const auto it = std::find_if(named_.begin(), end, [&](const WaitSum& s) { return s.hold == hold && s.slot == kernel; });
  if (it != end) return *it;
  if (named_count_ < kNamed) {
    named_[named_count_] = {.hold = hold, .slot = kernel};
    return named_[named_count_++];
  }
  WaitSum& rest = rest_[static_cast<std::size_t>(hold.reason)];
  rest.hold.reason = hold.reason;
  rest.named = false;
  return rest;
}

std::vector<WaitSum> WaitBook::sums(std::int64_t now_ns) const {
  std::vector<WaitSum> sums(named_.begin(), named_.begin() + static_cast<std::ptrdiff_t>(named_count_));
  std::copy_if(rest_.begin(), rest_.end(), std::back_inserter(sums), [](const WaitSum& s) { return s.count > 0; });
  const std::int64_t length_ns = until_ns(now_ns) - since_ns_;
  if (waiting_ && length_ns > 0) {
    const std::uint32_t kernel = depends_on_kernel(hold_.reason) ? slot_ : 0;
    sums.push_back({.hold = hold_, .slot = kernel, .named = true, .count = 1, .total_ns = length_ns, .cost_ns = account_.gate_cost(until_ns(now_ns))});
  }
  return sums;
}

} // namespace fikit::tracking
