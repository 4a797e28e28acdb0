// This process as a client of MPS: what makes it one, which limits it runs under, and whether its server still lives.
//
// On a device shared by MPS every process is a client, of no server. On a device with slices a process is one if its
// pipe directory has a file `emulated_server`, which the stand-in of NVIDIA's control daemon writes: "PID START_TIME
// MAX_CLIENTS". Each client puts a file `emulated_clients/client.PID` there: "PID START_TIME UID PRIORITY". Start times
// are field 22 of /proc/PID/stat; files of processes that are gone do not count.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "device_model/limits.hpp"
#include "libcuda/driver/config.hpp"

namespace emu {

class MpsClient {
 public:
  // Joins the server, if there is one to join, with the limits of the environment. Throws Failure: SERVER_NOT_READY when
  // the server is gone, MAX_CLIENTS_REACHED, CONNECTION_FAILED when the directory cannot be used, or what [mps] refuses says.
  explicit MpsClient(const Config& config);
  // Takes this process off its server's list: cuInit failed. A driver that has begun keeps its client until the process ends.
  ~MpsClient();
  MpsClient(const MpsClient&) = delete;
  MpsClient& operator=(const MpsClient&) = delete;

  bool is_client() const { return client_; }
  pid_t server() const { return server_; }  // 0: none
  // The client is one of a server that does not live any more.
  bool server_gone() const;
  int priority() const { return priority_; }  // CUDA_MPS_CLIENT_PRIORITY: 0 normal, 1 below normal
  // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, as the multiprocessors that its kernels may use.
  int multiprocessors() const { return multiprocessors_; }
  // CUDA_MPS_PINNED_DEVICE_MEM_LIMIT of a device, by the program's own number for it; UINT64_MAX: none.
  uint64_t memory_limit(int ordinal) const;

 private:
  void join(const std::string& directory, int refusal);
  void read_environment();

  bool client_ = false;
  pid_t server_ = 0;
  uint64_t server_start_ = 0;
  int priority_ = 0;
  int multiprocessors_ = limits::kMultiprocessors;
  std::map<int, uint64_t> memory_limits_;
};

// "0=2G,1=512M": bytes by device. Throws std::runtime_error with one sentence.
std::map<int, uint64_t> parse_memory_limits(const std::string& text);

}  // namespace emu
