#include "table.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "../device_model/shared_file.hpp"

namespace emu {
namespace {

constexpr uint64_t kMagic = 0x454d5543'464c5431;  // "EMUCFLT1"
constexpr int kRules = 32;
constexpr size_t kTextBytes = 240;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw std::runtime_error("emucuda: couldn't use /dev/shm/" + name + ": " + what);
}

struct Slot {
  std::atomic<uint32_t> id;  // 0: free. Written last, and first when the rule goes
  char text[kTextBytes];
  FaultCounts counts;
};

}  // namespace

struct FaultTable::Layout {
  std::atomic<uint64_t> magic;
  std::atomic<uint32_t> generation;
  std::atomic<uint32_t> last_id;
  Slot slots[kRules];
};

FaultTable::FaultTable(const std::string& name, bool for_all_users) : name_(name) {
  const Descriptor fd(open_or_create(name, for_all_users ? 0666 : 0600));
  // A fresh file is all zeros and that is an empty table: creators need no order among themselves.
  if (fd.get() < 0 || flock(fd.get(), LOCK_EX) != 0) fail(name, strerror(errno));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) fail(name, strerror(errno));
  if (info.st_size == 0 && ftruncate(fd.get(), sizeof(Layout)) != 0) fail(name, strerror(errno));
  if (info.st_size != 0 && static_cast<size_t>(info.st_size) != sizeof(Layout))
    fail(name, "another version of the emulator made it, run `emuctl reset`");
  void* memory = mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) fail(name, strerror(errno));
  layout_ = static_cast<Layout*>(memory);
  layout_->magic.store(kMagic);
}

FaultTable::FaultTable(FaultTable&& other) noexcept
    : layout_(std::exchange(other.layout_, nullptr)), name_(std::move(other.name_)) {}

FaultTable::~FaultTable() {
  if (layout_ != nullptr) munmap(layout_, sizeof(Layout));
}

uint32_t FaultTable::generation() const { return layout_->generation.load(std::memory_order_acquire); }

std::vector<FaultEntry> FaultTable::entries() const {
  for (;;) {
    const uint32_t before = generation();
    std::vector<FaultEntry> entries;
    for (Slot& slot : layout_->slots) {
      const uint32_t id = slot.id.load(std::memory_order_acquire);
      if (id != 0) entries.push_back({id, {slot.text, strnlen(slot.text, kTextBytes)}, &slot.counts});
    }
    if (generation() != before) continue;  // somebody wrote meanwhile: a text may be half of one, half of another
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return entries;
  }
}

uint32_t FaultTable::add(const std::string& text) {
  if (text.size() >= kTextBytes)
    fail(name_, "a fault may have at most " + std::to_string(kTextBytes - 1) + " characters");
  const Descriptor fd(shm_open(("/" + name_).c_str(), O_RDWR | O_CLOEXEC, 0));
  if (fd.get() < 0 || flock(fd.get(), LOCK_EX) != 0) fail(name_, strerror(errno));
  for (Slot& slot : layout_->slots) {
    if (slot.id.load() != 0) continue;
    layout_->generation.fetch_add(1);
    memcpy(slot.text, text.c_str(), text.size() + 1);
    slot.counts.matches.store(0);
    slot.counts.strikes.store(0);
    const uint32_t id = layout_->last_id.fetch_add(1) + 1;
    slot.id.store(id, std::memory_order_release);
    layout_->generation.fetch_add(1);
    return id;
  }
  fail(name_, "it holds " + std::to_string(kRules) + " faults already, remove some with `emuctl clear`");
}

int FaultTable::clear(uint32_t id) {
  const Descriptor fd(shm_open(("/" + name_).c_str(), O_RDWR | O_CLOEXEC, 0));
  if (fd.get() < 0 || flock(fd.get(), LOCK_EX) != 0) fail(name_, strerror(errno));
  int cleared = 0;
  for (Slot& slot : layout_->slots) {
    const uint32_t there = slot.id.load();
    if (there == 0 || (id != 0 && there != id)) continue;
    slot.id.store(0);
    ++cleared;
  }
  layout_->generation.fetch_add(1);
  return cleared;
}

std::string fault_table_name(bool for_all_users, const std::string& set_name) {
  return "emucuda." + (for_all_users ? "all" : std::to_string(getuid())) + "." + set_name + ".faults";
}

std::vector<std::string> existing_fault_tables(const std::string& set_name) {
  const std::string tail = "." + set_name + ".faults";
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = file.path().filename();
    const size_t owner_end = name.find('.', sizeof "emucuda." - 1);
    if (name.compare(0, 8, "emucuda.") != 0 || owner_end == std::string::npos) continue;
    if (name.compare(owner_end, std::string::npos, tail) == 0 && access(file.path().c_str(), R_OK | W_OK) == 0)
      names.push_back(name);
  }
  return names;
}

}  // namespace emu
