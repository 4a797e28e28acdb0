#include "segment.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "liveness.hpp"
#include "shared_file.hpp"

namespace emu {
namespace {

constexpr uint64_t kMagic = 0x454d5543'55444131;  // "EMUCUDA1"

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw std::runtime_error("emucuda: couldn't use /dev/shm/" + name + ": " + what);
}

}  // namespace

struct Segment::Layout {
  std::atomic<uint64_t> magic;  // written last
  uint32_t version;
  uint64_t bytes;
  DeviceIdentity identity;
  pthread_mutex_t mutex;
  DeviceState state;
  Trace trace;
};

std::string set_name() {
  const char* value = getenv("EMUCUDA_NAME");
  std::string name = value == nullptr || *value == '\0' ? "default" : value;
  const bool plain =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == std::string::npos;
  if (!plain || name.size() > 64)
    throw std::runtime_error("emucuda: couldn't use EMUCUDA_NAME=" + name +
                             ": use up to 64 letters, digits, '.', '_' or '-'");
  return name;
}

std::string segment_name(bool for_all_users, const std::string& set_name, int index) {
  const std::string owner = for_all_users ? "all" : std::to_string(getuid());
  return "emucuda." + owner + "." + set_name + "." + std::to_string(index);
}

std::vector<std::string> existing_segments(const std::string& set_name) {
  std::vector<std::pair<int, std::string>> found;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = file.path().filename();
    const size_t owner_end = name.find('.', sizeof "emucuda." - 1);
    const size_t index_begin = name.rfind('.');
    if (name.compare(0, 8, "emucuda.") != 0 || owner_end == std::string::npos || index_begin <= owner_end) continue;
    const bool ours = name.compare(owner_end + 1, index_begin - owner_end - 1, set_name) == 0;
    const bool device = name.find_first_not_of("0123456789", index_begin + 1) == std::string::npos;
    if (!ours || !device || access(file.path().c_str(), R_OK | W_OK) != 0) continue;
    found.emplace_back(atoi(name.c_str() + index_begin + 1), name);  // NOLINT(cert-err34-c): our own name
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  names.reserve(found.size());
  for (auto& [index, name] : found) names.push_back(std::move(name));
  return names;
}

void device_uuid(const std::string& name, uint8_t (&uuid)[16]) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string text = std::string(host) + "/" + name;
  for (int half = 0; half < 2; ++half) {
    uint64_t hash = 0xcbf29ce484222325u + static_cast<uint64_t>(half);  // FNV-1a
    for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
    memcpy(uuid + 8 * half, &hash, 8);
  }
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0f) | 0x80);  // RFC 9562 version 8 (vendor-specific), variant 10
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3f) | 0x80);
}

std::string uuid_text(const DeviceIdentity& identity) {
  return uuid_text(identity.uuid, strstr(identity.name, kMigMark) != nullptr);
}

std::string uuid_text(const uint8_t (&uuid)[16], bool instance) {
  std::string text = instance ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[4];
    snprintf(hex, sizeof hex, "%02x", uuid[i]);
    text += hex;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

Segment::Segment(const std::string& name, bool for_all_users, const DeviceIdentity& identity,
                 const DeviceParameters& parameters) {
  const mode_t mode = for_all_users ? 0666 : 0600;
  const Descriptor fd(open_or_create(name, mode));
  if (fd.get() < 0) fail(name, strerror(errno));
  // Serialises creation; the kernel drops it if a creator dies, and the next one starts over.
  if (flock(fd.get(), LOCK_EX) != 0) fail(name, strerror(errno));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) fail(name, strerror(errno));
  if (info.st_size == 0 && ftruncate(fd.get(), sizeof(Layout)) != 0) fail(name, strerror(errno));
  map(fd.get(), name);
  if (layout_->magic.load() == kMagic) return;
  layout_->version = kLayoutVersion;
  layout_->bytes = sizeof(Layout);
  layout_->identity = identity;
  DeviceModel::initialise(layout_->state, parameters);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&layout_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  layout_->magic.store(kMagic);
}

std::optional<Segment> Segment::find(const std::string& name) {
  const Descriptor fd(shm_open(("/" + name).c_str(), O_RDWR | O_CLOEXEC, 0));
  if (fd.get() < 0 && errno == ENOENT) return std::nullopt;
  if (fd.get() < 0 || flock(fd.get(), LOCK_EX) != 0) fail(name, strerror(errno));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) fail(name, strerror(errno));
  if (info.st_size == 0) return std::nullopt;
  Segment found;
  found.map(fd.get(), name);
  if (found.layout_->magic.load() != kMagic) return std::nullopt;
  return found;
}

void Segment::map(int fd, const std::string& name) {
  struct stat info{};
  if (fstat(fd, &info) != 0) fail(name, strerror(errno));
  if (static_cast<uint64_t>(info.st_size) != sizeof(Layout))
    fail(name, "another version of the emulator made it, run `emuctl reset`");
  void* memory = mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail(name, strerror(errno));
  layout_ = static_cast<Layout*>(memory);
  const bool made = layout_->magic.load() != 0;
  if (made &&
      (layout_->magic.load() != kMagic || layout_->version != kLayoutVersion || layout_->bytes != sizeof(Layout))) {
    munmap(memory, sizeof(Layout));
    layout_ = nullptr;
    fail(name, "another version of the emulator made it, run `emuctl reset`");
  }
}

Segment::Segment(Segment&& other) noexcept : layout_(std::exchange(other.layout_, nullptr)) {}

Segment::~Segment() {
  if (layout_ != nullptr) munmap(layout_, sizeof(Layout));
}

const DeviceIdentity& Segment::identity() const { return layout_->identity; }

const DeviceState& Segment::shared_state() const { return layout_->state; }

void Segment::trace_on(uint64_t records) {
  // Whoever touches a page for which /dev/shm has no room is killed by SIGBUS: ask for the pages now. A kernel before
  // 5.14 does not know how to, and takes the risk.
  Trace& trace = layout_->trace;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(&trace) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(trace.records + std::bit_ceil(records));
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
    throw std::runtime_error("emucuda: couldn't trace the emulated GPU: /dev/shm has no room for " +
                             std::to_string(records) + " records, ask for fewer");
  const Lock device(*this);
  trace.turn_on(records);
}

uint64_t trace_records(const std::string& text, const std::string& what) {
  if (text == "on") return kTraceRecords;
  uint64_t records = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), records);
  if (error != std::errc() || end != text.data() + text.size() || records < 1 || records > kMaxTraceRecords)
    throw std::runtime_error(what + " must be \"on\" or a number of records from 1 to " +
                             std::to_string(kMaxTraceRecords) + ", not \"" + text + "\"");
  return records;
}

uint64_t asked_trace_records() {
  const char* text = getenv("EMUCUDA_TRACE");
  return text == nullptr || *text == '\0' ? 0 : trace_records(text, "emucuda: EMUCUDA_TRACE");
}

Segment::Lock::Lock(Segment& segment) : segment_(segment), model_(segment.layout_->state, &segment.layout_->trace) {
  if (pthread_mutex_lock(&segment.layout_->mutex) != EOWNERDEAD) return;
  model_.repair();
  retire_dead(model_, true);
  pthread_mutex_consistent(&segment.layout_->mutex);
}

Segment::Lock::~Lock() { pthread_mutex_unlock(&segment_.layout_->mutex); }

void retire_dead(DeviceModel& model, bool all) {
  const pid_t self = getpid();
  for (int i = 0; i < kMaxProcesses; ++i) {
    const ProcessState& process = model.state().processes[i];
    if (process.pid == 0 || process.pid == self || (!all && !model.has_work(i))) continue;
    if (!alive(process.pid, process.pid_start)) model.retire(i);
  }
}

}  // namespace emu
