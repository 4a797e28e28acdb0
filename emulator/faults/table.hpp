// The faults that `emuctl inject` has put onto a set of devices: a small file under /dev/shm that every process on the
// set maps, so that running programs are struck too. Holds the rules' words and their counts, nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace emu {

// Shared by all processes on the set: the third launch is the third whoever makes it.
struct FaultCounts {
  std::atomic<uint64_t> matches;
  std::atomic<uint64_t> strikes;
};

struct FaultEntry {
  uint32_t id;
  std::string text;
  FaultCounts* counts;
};

class FaultTable {
 public:
  // Opens the file, creating it when it is not there. Throws std::runtime_error with one sentence.
  FaultTable(const std::string& name, bool for_all_users);
  FaultTable(FaultTable&& other) noexcept;
  FaultTable(const FaultTable&) = delete;
  FaultTable& operator=(const FaultTable&) = delete;
  ~FaultTable();

  // Changes whenever the rules do. All that the launch path asks.
  uint32_t generation() const;
  std::vector<FaultEntry> entries() const;
  // Returns the rule's id. Throws when the table is full. The words must be a rule's.
  uint32_t add(const std::string& text);
  // Removes one rule, or all (id 0); returns how many there were.
  int clear(uint32_t id);

 private:
  struct Layout;
  Layout* layout_ = nullptr;
  std::string name_;
};

// emucuda.<uid or "all">.<set>.faults, beside the devices' segments.
std::string fault_table_name(bool for_all_users, const std::string& set_name);
// Those of a set that exist and that this user may open (root: every user's).
std::vector<std::string> existing_fault_tables(const std::string& set_name);

}  // namespace emu
