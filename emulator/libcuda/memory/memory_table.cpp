#include "libcuda/memory/memory_table.hpp"

namespace emu {

void MemoryTable::insert(Allocation allocation) {
  const std::lock_guard lock(mutex_);
  allocation.id = next_id_++;
  ranges_[allocation.base] = allocation;
  managed_ += allocation.managed != nullptr ? 1 : 0;
}

std::optional<Allocation> MemoryTable::find(uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return std::nullopt;
  const Allocation& found = std::prev(after)->second;
  if (address - found.base >= found.bytes) return std::nullopt;
  return found;
}

std::optional<Allocation> MemoryTable::take(uintptr_t base) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(base);
  if (found == ranges_.end()) return std::nullopt;
  const Allocation allocation = found->second;
  ranges_.erase(found);
  managed_ -= allocation.managed != nullptr ? 1 : 0;
  return allocation;
}

std::optional<Allocation> MemoryTable::take_any_of(const Context* context) {
  const std::lock_guard lock(mutex_);
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    if (range->second.context != context) continue;
    const Allocation allocation = range->second;
    ranges_.erase(range);
    managed_ -= allocation.managed != nullptr ? 1 : 0;
    return allocation;
  }
  return std::nullopt;
}

bool MemoryTable::overlaps(uintptr_t base, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.lower_bound(base + bytes);
  if (after == ranges_.begin()) return false;
  const Allocation& last = std::prev(after)->second;
  return last.base + last.bytes > base;
}

std::optional<Allocation> MemoryTable::find_if(const std::function<bool(const Allocation&)>& fits) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [base, allocation] : ranges_) {
    if (fits(allocation)) return allocation;
  }
  return std::nullopt;
}

bool MemoryTable::change(uintptr_t base, const std::function<void(Allocation&)>& change) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(base);
  if (found == ranges_.end()) return false;
  change(found->second);
  return true;
}

}  // namespace emu
