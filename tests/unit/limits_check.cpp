// Plays random changes and questions to ByLength and Remaining: those longer or shorter than a length are those that a scan finds,
// and a mean that lies nowhere below its tangents is one whose slope is said. SEED CHANGES
#include <algorithm>
#include <array>
#include <random>

#include "policy/by_length.hpp"
#include "policy/times.hpp"
#include "random_check.hpp"

namespace {

using namespace fikit;
using namespace fikit::policy;

std::int64_t some_length(std::mt19937& dice) {
  const std::int64_t most_ns = std::int64_t{1} << dice() % 34;
  return dice() % 4 == 0 ? 40'000 : static_cast<std::int64_t>(dice()) % most_ns;
}

bool lengths(std::mt19937& dice, int changes) {
  ByLength index;
  std::array<std::int64_t, kMaxClients> known{};
  known.fill(kUnknown);
  for (int change = 0; change < changes; ++change) {
    const std::size_t row = dice() % 4 == 0 ? dice() % kMaxClients : dice() % 12;
    known[row] = dice() % 4 == 0 ? kUnknown : some_length(dice);
    index.put(row, known[row]);
    const std::int64_t asked_ns = dice() % 2 == 0 ? some_length(dice) : known[dice() % 12];
    const Lengths within{.shortest_ns = some_length(dice), .longest_ns = some_length(dice)};
    const Lengths bounds = index.bounds();
    for (std::size_t each = 0; each < kMaxClients; ++each) {
      const std::int64_t ns = known[each];
      const bool in = ns != kUnknown;
      if (index.longer(asked_ns).has(each) != (in && ns > asked_ns)) return false;
      if (index.shorter(asked_ns).has(each) != (in && ns < asked_ns)) return false;
      if (index.outside(within).has(each) != (in && (ns < within.shortest_ns || ns > within.longest_ns))) return false;
      if (in && (ns < bounds.shortest_ns || ns > bounds.longest_ns)) return false;
    }
    const bool some = std::ranges::any_of(known, [](std::int64_t ns) { return ns != kUnknown; });
    if (bounds.any() != some) return false;
  }
  return true;
}

bool tangents(std::mt19937& dice, int changes) {
  for (int change = 0; change < changes; ++change) {
    Times times;
    const std::int64_t most_ns = 1 + some_length(dice);
    for (std::int64_t& ns : times.ns) ns = dice() % 4 == 0 ? times.ns.front() : static_cast<std::int64_t>(dice()) % most_ns;
    std::ranges::sort(times.ns);
    const Remaining remaining(times, static_cast<std::int64_t>(dice()) % (2 * most_ns) - most_ns / 4);
    for (int pair = 0; pair < 8; ++pair) {
      const std::int64_t here_ns = static_cast<std::int64_t>(dice()) % (3 * most_ns);
      const std::int64_t there_ns = static_cast<std::int64_t>(dice()) % (3 * most_ns);
      const Remaining::At here = remaining.at(here_ns);
      const double tangent_ns = here.mean_ns + here.share * static_cast<double>(there_ns - here_ns);
      if (here.share < 0 || here.share > 1 || remaining.mean_before(there_ns) < tangent_ns - 1) return false;
    }
  }
  return true;
}

} // namespace

int main(int argc, char** argv) {
  return play(argc, argv, {{"an index by length answers otherwise than a scan", lengths}, {"a mean lies below its tangent", tangents}});
}
