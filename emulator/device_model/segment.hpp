// One emulated device in POSIX shared memory, with the lock that all its processes share.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device_model.hpp"

namespace emu {

struct DeviceIdentity {
  char name[128];
  uint8_t uuid[16];
  int32_t index;
  double dilation = 1.0;  // what its durations were stretched by
};

// Which set of devices this process uses: EMUCUDA_NAME, or "default". Throws std::runtime_error when it could not be a
// file name.
std::string set_name();
// Where the device sets live under /dev/shm: emucuda.<uid or "all">.<name>.<index>
std::string segment_name(bool for_all_users, const std::string& set_name, int index);
// The segments of a set that exist and that this user may open (root: every user's), by index.
std::vector<std::string> existing_segments(const std::string& set_name);
// Process-independent and different for every set, user and node: fikitd tells GPUs apart by it.
void device_uuid(const std::string& segment_name, uint8_t (&uuid)[16]);
// As people and programs write it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx, MIG-... of an instance
std::string uuid_text(const uint8_t (&uuid)[16], bool instance);
std::string uuid_text(const DeviceIdentity& identity);
// What stands between a GPU's name and an instance's profile in the instance's name, as the driver writes it.
constexpr const char* kMigMark = " MIG ";

class Segment {
 public:
  // Opens the device, creating it with these parameters when it is not there: the first process decides.
  // Throws std::runtime_error with one sentence for people.
  Segment(const std::string& name, bool for_all_users, const DeviceIdentity& identity,
          const DeviceParameters& parameters);
  // Opens an existing device, for those who look and must not create one. None: no process has used it yet, or its
  // first one is just creating it.
  static std::optional<Segment> find(const std::string& name);
  Segment(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  const DeviceIdentity& identity() const;
  // Without the lock: only for what nobody changes any more, such as completed ops that their owner has not reaped.
  const DeviceState& shared_state() const;
  // Records every op from now on, in a ring of at least so many records. Throws std::runtime_error with one sentence
  // when there is no memory for it.
  void trace_on(uint64_t records);
  bool tracing() { return Lock(*this)->recording() != nullptr; }

  // The model, for as long as this object lives. If the last holder died inside, repairs first.
  class Lock {
   public:
    explicit Lock(Segment& segment);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    DeviceModel* operator->() { return &model_; }
    DeviceModel& operator*() { return model_; }

   private:
    Segment& segment_;
    DeviceModel model_;
  };

 private:
  struct Layout;
  Segment() = default;
  void map(int fd, const std::string& name);

  Layout* layout_ = nullptr;
};

// How many records EMUCUDA_TRACE asks for: 0 when it is not set. Throws std::runtime_error with one sentence.
uint64_t asked_trace_records();
// The number of records that "on" or a number stands for; throws as above, `what` being who said it.
uint64_t trace_records(const std::string& text, const std::string& what);

// Retires the processes that no longer live; all of them, or only those with work in the device (cheap, periodic).
void retire_dead(DeviceModel& model, bool all);

}  // namespace emu
