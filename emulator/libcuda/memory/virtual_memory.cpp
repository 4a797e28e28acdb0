#include "libcuda/memory/virtual_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

namespace emu {
namespace {

// Takes whatever was there away; the addresses stay reserved.
void* map_nothing(void* at, uint64_t bytes, int flags) {
  return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

void* pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

int protection(unsigned access) {
  return (access & CU_MEM_ACCESS_FLAGS_PROT_READ) == 0 ? PROT_NONE
         : access == CU_MEM_ACCESS_FLAGS_PROT_READ     ? PROT_READ
                                                       : PROT_READ | PROT_WRITE;
}

// The table's entry is what copies and pointer queries see of a mapping.
Allocation entry(uintptr_t base, uint64_t bytes, PhysicalMemory& memory) {
  Allocation made{base, bytes, 0, MemoryKind::mapped, nullptr, nullptr, 0};
  made.device = &memory.device;
  return made;
}

}  // namespace

AddressSpace& address_space() {
  static auto* space = new AddressSpace;  // never destroyed, as the driver itself
  return *space;
}

unsigned AddressSpace::Mapping::any() const {
  unsigned all = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  for (const auto& [device, flags] : access) all |= flags;
  return all;
}

uintptr_t AddressSpace::reserve(uint64_t bytes, uint64_t alignment, uintptr_t hint) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  require(bytes > 0 && bytes % page == 0 && hint % page == 0 && (alignment == 0 || std::has_single_bit(alignment)),
          CUDA_ERROR_INVALID_VALUE);
  const uint64_t aligned = std::max(alignment, kGranularity);
  require(bytes <= uint64_t{1} << 46 && aligned <= uint64_t{1} << 46, CUDA_ERROR_OUT_OF_MEMORY);
  void* found = map_nothing(pointer(hint), bytes + aligned, 0);
  require(found != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  const auto first = reinterpret_cast<uintptr_t>(found);
  const uintptr_t base = (first + aligned - 1) / aligned * aligned;
  if (base > first) munmap(found, base - first);
  if (base < first + aligned) munmap(pointer(base + bytes), first + aligned - base);
  const std::lock_guard lock(mutex_);
  reservations_[base] = bytes;
  used_.store(true, std::memory_order_relaxed);
  return base;
}

void AddressSpace::free(uintptr_t base, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = reservations_.find(base);
  require(found != reservations_.end() && found->second == bytes, CUDA_ERROR_INVALID_VALUE);
  const auto mapped = mappings_.lower_bound(base);
  require(mapped == mappings_.end() || mapped->first >= base + bytes, CUDA_ERROR_INVALID_VALUE);
  munmap(pointer(base), bytes);
  reservations_.erase(found);
}

void AddressSpace::map(uintptr_t base, uint64_t bytes, PhysicalMemory& memory) {
  require(bytes > 0 && base % kGranularity == 0 && bytes % kGranularity == 0, CUDA_ERROR_INVALID_VALUE);
  require(bytes == memory.bytes.bytes(), CUDA_ERROR_NOT_SUPPORTED);  // nor a part of it
  const auto [begin, length] = reservation(base);
  require(length > 0 && base - begin <= length - 1 && bytes <= length - (base - begin), CUDA_ERROR_INVALID_VALUE);
  const std::lock_guard lock(mutex_);
  const auto after = mappings_.lower_bound(base + bytes);
  if (after != mappings_.begin()) {
    const auto& [other, mapping] = *std::prev(after);
    require(other + mapping.bytes <= base, CUDA_ERROR_INVALID_VALUE);
  }
  hold(memory, &PhysicalMemory::mappings);
  try {
    memory.bytes.map(bytes, PROT_NONE, pointer(base));
  } catch (const Failure&) {
    drop(memory, &PhysicalMemory::mappings);
    throw;
  }
  mappings_[base] = {bytes, &memory, {}};
  driver().memory().insert(entry(base, bytes, memory));
}

void AddressSpace::unmap(uintptr_t base, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (empty(base, bytes)) return;  // a real driver does not mind
  const auto [first, last] = exactly(base, bytes);
  for (auto mapping = first; mapping != last; mapping = mappings_.erase(mapping)) {
    driver().memory().take(mapping->first);
    map_nothing(pointer(mapping->first), mapping->second.bytes, MAP_FIXED);
    drop(*mapping->second.memory, &PhysicalMemory::mappings);
  }
}

void AddressSpace::set_access(uintptr_t base, uint64_t bytes, const std::vector<CUmemAccessDesc>& access) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = exactly(base, bytes);
  for (auto mapping = first; mapping != last; ++mapping) {
    for (const CUmemAccessDesc& one : access) mapping->second.access[&device_at(one.location)] = one.flags;
    mprotect(pointer(mapping->first), mapping->second.bytes, protection(mapping->second.any()));
  }
}

unsigned AddressSpace::access(uintptr_t address, const Device& device) {
  const std::lock_guard lock(mutex_);
  const auto mapping = mapping_at(address);
  require(mapping != mappings_.end(), CUDA_ERROR_INVALID_VALUE);
  const auto found = mapping->second.access.find(&device);
  return found == mapping->second.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
}

PhysicalMemory& AddressSpace::retain(uintptr_t address) {
  const std::lock_guard lock(mutex_);
  const auto mapping = mapping_at(address);
  require(mapping != mappings_.end(), CUDA_ERROR_INVALID_VALUE);
  hold(*mapping->second.memory, &PhysicalMemory::handles);
  return *mapping->second.memory;
}

std::pair<uintptr_t, uint64_t> AddressSpace::reservation(uintptr_t address) {
  const std::lock_guard lock(mutex_);
  const auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return {0, 0};
  const auto& [base, bytes] = *std::prev(after);
  return address - base < bytes ? std::pair{base, bytes} : std::pair{uintptr_t{0}, uint64_t{0}};
}

void AddressSpace::require_access(const void* address, uint64_t bytes, bool write) {
  if (!used() || bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  if (reservation(begin).second == 0) return;
  const std::lock_guard lock(mutex_);
  const unsigned needed = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  for (uintptr_t at = begin; at < begin + bytes;) {
    const auto mapping = mapping_at(at);
    require(mapping != mappings_.end() && (mapping->second.any() & needed) == needed, CUDA_ERROR_INVALID_VALUE);
    at = mapping->first + mapping->second.bytes;
  }
}

bool AddressSpace::faults(const std::vector<Extent>& memory) {
  if (!used()) return false;
  return std::any_of(memory.begin(), memory.end(), [this](const Extent& extent) {
    if (reservation(extent.at).second == 0) return false;
    const std::lock_guard lock(mutex_);
    const auto mapping = mapping_at(extent.at);
    return mapping == mappings_.end() || (mapping->second.any() & CU_MEM_ACCESS_FLAGS_PROT_READ) == 0;
  });
}

AddressSpace::Mappings::iterator AddressSpace::mapping_at(uintptr_t address) {
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return mappings_.end();
  const auto found = std::prev(after);
  return address - found->first < found->second.bytes ? found : mappings_.end();
}

bool AddressSpace::empty(uintptr_t base, uint64_t bytes) const {
  const auto reserved = reservations_.upper_bound(base);
  if (bytes == 0 || reserved == reservations_.begin()) return false;
  const auto& [begin, length] = *std::prev(reserved);
  if (base - begin >= length || bytes > length - (base - begin)) return false;
  const auto after = mappings_.lower_bound(base + bytes);
  return after == mappings_.begin() || std::prev(after)->first + std::prev(after)->second.bytes <= base;
}

std::pair<AddressSpace::Mappings::iterator, AddressSpace::Mappings::iterator> AddressSpace::exactly(uintptr_t base,
                                                                                                  uint64_t bytes) {
  const auto first = mappings_.find(base);
  auto last = first;
  uintptr_t end = base;
  for (; last != mappings_.end() && last->first == end && end < base + bytes; ++last) end += last->second.bytes;
  require(first != mappings_.end() && end == base + bytes, CUDA_ERROR_INVALID_VALUE);
  return {first, last};
}

}  // namespace emu

using namespace emu;

namespace {

// Nothing queued may still use the addresses (CUDA manual: these calls synchronise).
void settle() { synchronize_current(); }

}  // namespace

CU_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint,
                                       unsigned long long flags) {
  return api([&] {
    driver();
    require(out != nullptr && flags == 0, CUDA_ERROR_INVALID_VALUE);
    *out = address_space().reserve(bytes, alignment, hint);
  });
}

CU_EXPORT CUresult cuMemAddressFree(CUdeviceptr base, size_t bytes) {
  return api([&] {
    driver();
    address_space().free(base, bytes);
  });
}

CU_EXPORT CUresult cuMemMap(CUdeviceptr base, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags) {
  return api([&] {
    driver();
    require(flags == 0, CUDA_ERROR_INVALID_VALUE);
    require(offset == 0, CUDA_ERROR_NOT_SUPPORTED);
    address_space().map(base, bytes, physical_memory(handle));
    take_time(driver().config().virtual_memory.map_ns, bytes);
  });
}

CU_EXPORT CUresult cuMemUnmap(CUdeviceptr base, size_t bytes) {
  return api([&] {
    driver();
    settle();
    address_space().unmap(base, bytes);
    take_time(driver().config().virtual_memory.unmap_ns, bytes);
  });
}

CU_EXPORT CUresult cuMemSetAccess(CUdeviceptr base, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  return api([&] {
    driver();
    require(access != nullptr && count > 0, CUDA_ERROR_INVALID_VALUE);
    const std::vector<CUmemAccessDesc> all(access, access + count);
    for (const CUmemAccessDesc& one : all) {
      device_at(one.location);
      require(one.flags <= CU_MEM_ACCESS_FLAGS_PROT_READWRITE && one.flags != 2, CUDA_ERROR_INVALID_VALUE);
    }
    settle();
    address_space().set_access(base, bytes, all);
    take_time(driver().config().virtual_memory.set_access_ns, bytes);
  });
}

CU_EXPORT CUresult cuMemGetAccess(unsigned long long* out, const CUmemLocation* location, CUdeviceptr address) {
  return api([&] {
    driver();
    require(out != nullptr && location != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = address_space().access(address, device_at(*location));
  });
}

CU_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* address) {
  return api([&] {
    driver();
    require(out != nullptr, CUDA_ERROR_INVALID_VALUE);
    *out = handle_of(address_space().retain(reinterpret_cast<uintptr_t>(address)));
  });
}

// A descriptor for other devices' direct access (dma-buf): it needs a kernel driver, and attribute 124 says no.
CU_EXPORT CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr address, size_t bytes, int, unsigned long long) {
  return api([&] {
    require(out != nullptr && bytes > 0 && driver().memory().find(address).has_value(), CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_NOT_SUPPORTED;
  });
}
