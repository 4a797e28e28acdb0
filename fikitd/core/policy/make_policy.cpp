// Every policy by its name.
#include <algorithm>
#include <array>

#include "budget/budget.hpp"
#include "policy.hpp"
#include "policy/baselines/exclusive.hpp"
#include "policy/baselines/fifo.hpp"
#include "policy/baselines/paper.hpp"
#include "policy/baselines/prio.hpp"
#include "policy/baselines/tgs.hpp"
#include "policy/baselines/xsched.hpp"

namespace fikit::policy {
namespace {

using Made = std::unique_ptr<LevelPolicy>;

struct Entry {
  std::string_view name;
  Made (*make)(const Options&);
};

constexpr std::int64_t kTallyIdleNs = 100'000;

template <std::size_t K>
Made prio(const Options& options) {
  return std::make_unique<Prio>(options, Boundary{.in_flight = K});
}

constexpr std::array<Entry, 12> kPolicies{{
    {"fifo", [](const Options& o) -> Made { return std::make_unique<Fifo>(o); }},
    {"exclusive", [](const Options& o) -> Made { return std::make_unique<Exclusive>(o); }},
    {"excl", [](const Options& o) -> Made { return std::make_unique<Prio>(o, Boundary{.whole_request = true}); }},
    {"prio", prio<1>},
    {"prio2", prio<2>},
    {"prio4", prio<4>},
    {"xsched", [](const Options& o) -> Made { return std::make_unique<XSched>(o, 16, 8); }},
    {"xsched2", [](const Options& o) -> Made { return std::make_unique<XSched>(o, 2, 1); }},
    {"tally", [](const Options& o) -> Made { return std::make_unique<Prio>(o, Boundary{.idle_ns = kTallyIdleNs}); }},
    {"tgs", [](const Options& o) -> Made { return std::make_unique<Tgs>(o); }},
    {"paper", [](const Options& o) -> Made { return std::make_unique<Paper>(o); }},
    {"budget", [](const Options& o) -> Made { return std::make_unique<budget::Budget>(o); }},
}};

} // namespace

std::unique_ptr<Policy> make_policy(std::string_view name, const Options& options) {
  const auto* it = std::find_if(kPolicies.begin(), kPolicies.end(), [name](const Entry& e) { return e.name == name; });
  return it == kPolicies.end() ? nullptr : std::make_unique<Policy>(it->make, options);
}

std::span<const std::string_view> policy_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kPolicies.size()> names{};
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kPolicies[i].name;
    return names;
  }();
  return kNames;
}

std::string unknown_policy(std::string_view name) {
  std::string text = "unknown policy \"" + std::string(name) + "\", use one of ";
  for (const Entry& entry : kPolicies) text += (&entry == &kPolicies.front() ? "" : ", ") + std::string(entry.name);
  return text;
}

} // namespace fikit::policy
