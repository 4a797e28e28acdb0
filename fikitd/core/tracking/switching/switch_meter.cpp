#include "switch_meter.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

namespace fikit::tracking {
namespace {

// Fractions of a turn. Work that begins later than this has another reason;
constexpr double kAtMost = 5;
// a switch counts as known within this, or within an eighth of itself;
constexpr double kSure = .006;
// and half of the samples must lie within this, or within a quarter of the switch.
constexpr double kAgree = .02;

template <class Values>
auto middle(Values values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The error of a median of `count` values: about twice its standard error, 1.4826 x 1.2533 x 2 deviations.
double error_of_median(std::int64_t deviation_ns, std::size_t count) {
  return 3.72 * static_cast<double>(deviation_ns) / std::sqrt(static_cast<double>(count));
}

} // namespace

SwitchMeter::SwitchMeter(double turn_ns) : turn_ns_(turn_ns) {}

void SwitchMeter::Window::add(std::int32_t ns) {
  values_[next_] = ns;
  next_ = (next_ + 1) % kWindow;
  count_ = std::min(count_ + 1, kWindow);
}

std::int64_t SwitchMeter::Window::median() const {
  auto values = values_;
  return middle(std::span(values).first(count_));
}

std::int64_t SwitchMeter::Window::half_width() const {
  auto values = values_;
  const auto seen = std::span(values).first(count_);
  const auto value = [&](std::size_t place) {
    std::ranges::nth_element(seen, seen.begin() + static_cast<std::ptrdiff_t>(place));
    return std::int64_t{seen[place]};
  };
  const std::int64_t lower = value(count_ / 4);
  return value(count_ - 1 - count_ / 4) - lower;
}

std::int64_t SwitchMeter::Window::deviation() const {
  auto values = values_;
  const std::int64_t center = median();
  for (std::int32_t& value : values) value = static_cast<std::int32_t>(std::abs(value - center));
  return middle(std::span(values).first(count_));
}

// Where there are too many clients, the one of the lowest priority is dropped, which may be this one.
SwitchMeter::Client* SwitchMeter::place(std::uint32_t client, int level) {
  const auto end = clients_.begin() + static_cast<std::ptrdiff_t>(count_);
  const auto found = std::ranges::find(clients_.begin(), end, client, &Client::id);
  if (found != end && found->level == level) return &*found;
  if (found != end) return &(*found = {.id = client, .level = level, .heard = {}});
  if (count_ < kClients) return &(clients_[count_++] = {.id = client, .level = level, .heard = {}});
  const auto last = std::ranges::max_element(clients_, {}, &Client::level);
  if (last->level < level) return nullptr;
  return &(*last = {.id = client, .level = level, .heard = {}});
}

void SwitchMeter::began(const Beginning& b) {
  const double at_most_ns = std::min(kAtMost * turn_ns_, double{std::numeric_limits<std::int32_t>::max()});
  if (std::abs(static_cast<double>(b.late_ns)) > at_most_ns) return;
  Client* const client = place(b.client, b.own_level);
  if (client == nullptr) return;
  const auto same = [&](const Heard& heard) { return heard.level == b.level && heard.changed == b.changed && heard.idle == b.idle; };
  auto found = std::ranges::find_if(client->heard, same);
  if (found == client->heard.end())
    found = client->heard.insert(found, {.level = b.level, .changed = b.changed, .idle = b.idle, .late = {}});
  found->late.add(static_cast<std::int32_t>(b.late_ns));
  ++samples_;
}

// From the samples of the highest level, among those that count, that has enough.
const SwitchMeter::Heard* SwitchMeter::heard(const Client& client, bool changed, bool idle, int level) {
  const Heard* best = nullptr;
  for (const Heard& heard : client.heard) {
    const bool counts = heard.changed == changed && heard.idle == idle && heard.level <= level && heard.late.count() >= kEnough;
    if (counts && (best == nullptr || heard.level < best->level)) best = &heard;
  }
  return best;
}

// From launches on an idle device; without enough of these, from launches behind other work, whose end is known less exactly.
std::optional<SwitchCost> SwitchMeter::word(const Client& client, int level) const {
  for (const bool idle : {true, false}) {
    const Heard* const kept = heard(client, false, idle, level);
    const Heard* const changed = heard(client, true, idle, level);
    if (kept == nullptr || changed == nullptr) continue;
    if (const auto found = word(*changed, *kept)) return found;
  }
  return std::nullopt;
}

// Samples that do not agree are late for different reasons: they measure no switch.
std::optional<SwitchCost> SwitchMeter::word(const Heard& changed, const Heard& kept) const {
  const Window& after = changed.late;
  const Window& before = kept.late;
  const std::int64_t switch_ns = after.median() - before.median();
  const double spread = std::hypot(error_of_median(after.deviation(), after.count()), error_of_median(before.deviation(), before.count()));
  const auto within = [&](double part, double of_switch) { return std::max(part * turn_ns_, of_switch * static_cast<double>(switch_ns)); };
  if (spread > within(kSure, 1. / 8)) return std::nullopt;
  if (static_cast<double>(std::max(after.half_width(), before.half_width())) > within(kAgree, 1. / 4)) return std::nullopt;
  return SwitchCost{.switch_ns = switch_ns,
                    .spread_ns = std::llround(spread),
                    .count = static_cast<std::uint32_t>(std::min(after.count(), before.count())),
                    .level = std::max(changed.level, kept.level)};
}

std::optional<SwitchCost> SwitchMeter::cost(int level) const {
  std::array<std::int64_t, kClients> costs{};
  std::size_t known = 0;
  int highest = level;
  SwitchCost all;
  for (const Client& client : std::span(clients_).first(count_)) {
    if (client.level > highest) continue;
    const std::optional<SwitchCost> cost = word(client, level);
    if (!cost) continue;
    if (client.level < highest) known = 0, all = {};
    highest = client.level;
    costs[known++] = cost->switch_ns;
    all.spread_ns = std::max(all.spread_ns, cost->spread_ns);
    all.count += cost->count;
    all.level = std::max(all.level, cost->level);
  }
  if (known == 0) return std::nullopt;
  all.switch_ns = std::max<std::int64_t>(middle(std::span(costs).first(known)), 0);
  return all;
}

std::vector<SwitchMeter::Word> SwitchMeter::words() const {
  std::vector<Word> words;
  int highest = kLowest;
  for (const Client& client : std::span(clients_).first(count_)) {
    const std::optional<SwitchCost> cost = client.level <= highest ? word(client, kLowest) : std::nullopt;
    if (!cost) continue;
    if (client.level < highest) words.clear();
    highest = client.level;
    words.push_back({.client = client.id, .cost = *cost});
    words.back().cost.switch_ns = std::max<std::int64_t>(cost->switch_ns, 0);
  }
  return words;
}

} // namespace fikit::tracking
