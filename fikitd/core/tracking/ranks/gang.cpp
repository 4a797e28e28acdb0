#include "gang.hpp"

#include <algorithm>
#include <utility>

namespace fikit::tracking {

std::shared_ptr<Gang> Gang::of(std::uint64_t number) {
  static std::mutex mutex;
  static std::unordered_map<std::uint64_t, std::weak_ptr<Gang>> gangs;
  if (number == 0) return nullptr;
  const std::lock_guard lock(mutex);
  std::erase_if(gangs, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Gang> gang = gangs[number].lock();
  if (gang == nullptr) gangs[number] = gang = std::make_shared<Gang>();
  return gang;
}

void Gang::runs(const void* member, std::uint64_t count, std::int64_t until_ns) {
  const std::lock_guard lock(mutex_);
  if (count == 0) running_.erase(member);
  else running_[member] = {.count = count, .until_ns = until_ns};
}

bool Gang::waits_for(const void* member, std::uint64_t count, std::int64_t now_ns) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(running_.begin(), running_.end(), [&](const auto& other) {
    return other.first != member && other.second.count > count && now_ns < other.second.until_ns;
  });
}

// Spent time comes back at a twentieth of the rate at which it is spent, whether all of it was spent or only some.
void Exemption::pass(std::int64_t now_ns) {
  const std::int64_t since_ns = std::max<std::int64_t>(0, now_ns - std::exchange(seen_ns_, std::max(seen_ns_, now_ns)));
  spent_ns_ = unheld_ > 0 ? spent_ns_ + since_ns : std::max<std::int64_t>(0, spent_ns_ - since_ns / kRestLeases);
  if (spent_ns_ < lease_ns_) return;
  held_until_ns_ = now_ns + kRestLeases * lease_ns_;
  spent_ns_ = 0;
}

} // namespace fikit::tracking
