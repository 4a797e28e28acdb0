// Addresses without memory (cuMemAddressReserve), and the memory mapped to them.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "libcuda/memory/physical_memory.hpp"

namespace emu {

class AddressSpace {
 public:
  uintptr_t reserve(uint64_t bytes, uint64_t alignment, uintptr_t hint);
  void free(uintptr_t base, uint64_t bytes);
  void map(uintptr_t base, uint64_t bytes, PhysicalMemory& memory);
  void unmap(uintptr_t base, uint64_t bytes);
  void set_access(uintptr_t base, uint64_t bytes, const std::vector<CUmemAccessDesc>& access);
  unsigned access(uintptr_t address, const Device& device);
  // The memory that is mapped at this address, with one more handle.
  PhysicalMemory& retain(uintptr_t address);
  // Begin and length of the reservation around an address; of nothing outside of them.
  std::pair<uintptr_t, uint64_t> reservation(uintptr_t address);
  // Whether anything was ever reserved: copies and launches need not ask otherwise.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  // Whether a kernel that uses this memory ends its context: one of the extents begins where nothing is mapped, or nobody may read.
  bool faults(const std::vector<Extent>& memory);
  // Throws INVALID_VALUE where somebody would read or write mapped memory that nobody was given access to: a store
  // there would end the process.
  void require_access(const void* address, uint64_t bytes, bool write);

 private:
  struct Mapping {
    uint64_t bytes = 0;
    PhysicalMemory* memory = nullptr;
    std::map<const Device*, unsigned> access;
    unsigned any() const;
  };
  using Mappings = std::map<uintptr_t, Mapping>;
  Mappings::iterator mapping_at(uintptr_t address);
  bool empty(uintptr_t base, uint64_t bytes) const;  // within a reservation, with nothing mapped there
  // The mappings that fill a range exactly; throws INVALID_VALUE when they do not.
  std::pair<Mappings::iterator, Mappings::iterator> exactly(uintptr_t base, uint64_t bytes);

  std::mutex mutex_;
  std::map<uintptr_t, uint64_t> reservations_;
  Mappings mappings_;
  std::atomic<bool> used_{false};
};

AddressSpace& address_space();

}  // namespace emu
