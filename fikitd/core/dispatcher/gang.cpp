#include "gang.hpp"

#include <algorithm>

namespace fikit::dispatcher {

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

void Gang::runs(const void* member, std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  if (count == 0) running_.erase(member);
  else running_[member] = count;
}

bool Gang::waits_for(const void* member, std::uint64_t count) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(running_.begin(), running_.end(),
                     [&](const auto& other) { return other.first != member && other.second > count; });
}

} // namespace fikit::dispatcher
