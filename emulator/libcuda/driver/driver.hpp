// The process-wide state behind the driver API, and the frame around every entry point.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "libcuda/driver/config.hpp"
#include "libcuda/driver/faults.hpp"
#include "libcuda/driver/host_thread.hpp"
#include "libcuda/driver/inventory.hpp"
#include "libcuda/memory/memory_table.hpp"
#include "libcuda/driver/mps.hpp"
#include "libcuda/driver/objects.hpp"
#include "libcuda/driver/session.hpp"

namespace emu {

struct Context;
struct Pool;

struct Device {
  int ordinal = 0;  // what the program sees, after CUDA_VISIBLE_DEVICES
  InventoryEntry entry{};  // which emulated device it is
  CUuuid uuid{};
  std::mutex session_mutex;
  std::unique_ptr<Session> session_owner;  // guarded by session_mutex
  std::mutex mutex;                        // guards the rest; taken before session_mutex
  Context* primary = nullptr;
  int primary_users = 0;
  unsigned primary_flags = 0;
  Pool* default_pool = nullptr;
  Pool* current_pool = nullptr;
  std::mutex pools_mutex;  // guards `pools`; taken after everything else
  std::vector<Pool*> pools;
  std::atomic<bool> pools_hold{false};  // memory that nobody uses

  // Attaches to the shared device at first use.
  Session& session();
};

class Driver {
 public:
  // Reads the configuration and CUDA_VISIBLE_DEVICES and joins MPS; throws std::runtime_error with a sentence, or what
  // MPS refuses a client with.
  Driver();
  Device& device(CUdevice ordinal) {
    require(ordinal >= 0 && static_cast<size_t>(ordinal) < devices_.size(), CUDA_ERROR_INVALID_DEVICE);
    return *devices_[static_cast<size_t>(ordinal)];
  }
  int count() const { return static_cast<int>(devices_.size()); }
  const Config& config() const { return config_; }
  const std::string& set() const { return set_; }
  MemoryTable& memory() { return memory_; }
  const MpsClient& mps() const { return mps_; }

 private:
  Config config_;
  std::string set_;
  MpsClient mps_;
  std::vector<std::unique_ptr<Device>> devices_;
  MemoryTable memory_;
};

// The driver after cuInit; throws NOT_INITIALIZED before it and in a forked child. Never destroyed: programs call the
// driver from atexit handlers and destructors.
Driver& driver();
CUresult initialise_driver();
// One line on stderr, for people.
void say(const std::string& line);

// Every entry point's body runs in here: failures become the call's result, nothing is thrown into the program. `call`
// is the entry point's name, by which faults are injected; what serves several entry points passes it on.
template <typename Body>
CUresult api_anywhere(Body&& body, const char* call = __builtin_FUNCTION()) noexcept {
  try {
    call_fault(call);
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      return CUDA_SUCCESS;
    } else {
      return body();
    }
  } catch (const Failure& failure) {
    return failure.code;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    say(error.what());
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
}

// What a host function may not call: nearly everything.
template <typename Body>
CUresult api(Body&& body, const char* call = __builtin_FUNCTION()) noexcept {
  return in_host_function() ? CUDA_ERROR_NOT_PERMITTED : api_anywhere(std::forward<Body>(body), call);
}

}  // namespace emu
