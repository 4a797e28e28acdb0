#include "copies.hpp"

#include <algorithm>

namespace fikit::policy {

bool Copies::copied(const Event& event, const Client& client) {
  Copying& copying = copying_[client.slot][copy_engine(event.engine)];
  const bool first = !copying.known();
  copying.copied(event.time_ns, event.outlook.idle);
  return first;
}

CopyEngines Copies::that_matter(const Client& client) const {
  CopyEngines matter{};
  for (const Client& higher : clients_.all())
    for (std::size_t engine = 0; engine < kCopyEngines && higher.outranks(client); ++engine)
      matter[engine] |= copying_[higher.slot][engine].known();
  return matter;
}

// In its stream it may stand behind its client's kernels.
std::int64_t Copies::end_ns(const Asked& copy, std::int64_t now_ns) const {
  const auto reaction_ns = static_cast<std::int64_t>(options_.tuning.reaction_ns);
  return std::max({now_ns + reaction_ns, low(copy.engine).end_ns, copy.client.progress.finish_ns()}) + copy.length_ns;
}

double Copies::delay_ns(const Client& higher, Engine engine, std::int64_t end_ns, std::int64_t now_ns) const {
  const Copying& copying = of(higher, engine);
  return copying.mean_delay_ns(end_ns, now_ns) - copying.mean_delay_ns(low(engine).end_ns, now_ns);
}

void Copies::grant(const Asked& copy, std::uint32_t request, std::int64_t end_ns, std::int64_t now_ns) {
  const std::int64_t over_ns = now_ns + options_.lease_ns;
  low_[copy_engine(copy.engine)] = {.granted_ns = now_ns,
                                    .end_ns = std::min(end_ns, over_ns),
                                    .over_ns = over_ns,
                                    .client = copy.client.id,
                                    .request = request,
                                    .priority = copy.client.priority};
}

} // namespace fikit::policy
