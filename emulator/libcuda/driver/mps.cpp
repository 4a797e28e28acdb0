#include "libcuda/driver/mps.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "device_model/liveness.hpp"
#include "device_model/shared_file.hpp"
#include "libcuda/driver/driver.hpp"

namespace emu {
namespace {

constexpr const char* kDefaultDirectory = "/tmp/nvidia-mps";
constexpr const char* kClients = "/emulated_clients";  // every user may write there, and in the pipe directory nobody
constexpr int kLockTries = 2000;  // a millisecond apart

// Where this process stands in its server's list; taken down when it ends.
char* g_client_file = nullptr;
pid_t g_client_pid = 0;

[[gnu::destructor]] void leave() {
  if (g_client_file != nullptr && g_client_pid == getpid()) unlink(g_client_file);
}

std::string environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

// The first bytes of a regular file, empty when it is not there or something else.
std::string read_start(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return "";
  char text[256];
  const ssize_t n = pread(fd, text, sizeof text, 0);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : "";
}

[[noreturn]] void refuse(const std::string& directory, const std::string& why) {
  say("emucuda: couldn't join the MPS server of " + directory + ": " + why);
  throw Failure{CUDA_ERROR_MPS_CONNECTION_FAILED};
}

// Somebody who holds the lock for ever keeps nobody for ever.
void lock(int fd, const std::string& directory) {
  for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK || tries == kLockTries) refuse(directory, "its emulated_server stays locked");
    usleep(1000);
  }
}

// How many other processes are clients now.
int other_clients(const std::string& directory) {
  DIR* entries = opendir((directory + kClients).c_str());
  if (entries == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(entries)) {
    if (strncmp(entry->d_name, "client.", 7) != 0) continue;
    const Descriptor fd(openat(dirfd(entries), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd.get() < 0) continue;
    std::istringstream line(read_start(fd.get()));
    pid_t pid = 0;
    uint64_t start = 0;
    if (line >> pid >> start && pid != getpid() && start != 0 && alive(pid, start)) ++count;
  }
  closedir(entries);
  return count;
}

// Of a percentage of the threads so many multiprocessors, rounded up.
int multiprocessors_of(double percentage) {
  const int share = static_cast<int>(std::ceil(limits::kMultiprocessors * percentage / 100));
  return std::clamp(share, 1, limits::kMultiprocessors);
}

uint64_t bytes_of(const std::string& text, const std::string& whole) {
  char* unit = nullptr;
  const unsigned long long amount = strtoull(text.c_str(), &unit, 10);
  const std::string name = unit;
  int shift = name.empty() ? 0 : -1;
  if (name == "G" || name == "GB") shift = 30;
  if (name == "M" || name == "MB") shift = 20;
  if (name == "K" || name == "KB") shift = 10;
  const bool number = unit != text.c_str() && text[0] != '-';
  if (!number || shift < 0 || amount > UINT64_MAX >> shift)
    throw std::runtime_error("emucuda: couldn't use CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=" + whole +
                             ": it must look like 0=2G,1=512M");
  return uint64_t{amount} << shift;
}

}  // namespace

std::map<int, uint64_t> parse_memory_limits(const std::string& text) {
  std::map<int, uint64_t> limits;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t equals = entry.find('=');
    char* end = nullptr;
    const long device = strtol(entry.c_str(), &end, 10);
    const bool named = equals != std::string::npos && equals > 0 && end == entry.c_str() + equals && device >= 0;
    const uint64_t bytes = bytes_of(named ? entry.substr(equals + 1) : "", text);
    limits[static_cast<int>(device)] = bytes;
  }
  return limits;
}

MpsClient::MpsClient(const Config& config) {
  if (config.sharing == Sharing::mps) {
    client_ = true;
    read_environment();
    return;
  }
  if (config.sharing != Sharing::slices) return;
  const std::string directory = environment("CUDA_MPS_PIPE_DIRECTORY");
  join(directory.empty() ? kDefaultDirectory : directory, config.mps.error);
}

MpsClient::~MpsClient() {
  leave();
  g_client_file = nullptr;
}

// Without a control daemon in the directory a program runs as it would without MPS (nvidia-cuda-mps-control(1)).
void MpsClient::join(const std::string& directory, int refusal) {
  const std::string said = directory + "/emulated_server";
  const Descriptor server(open(said.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (server.get() < 0) return;
  require(refusal == 0, static_cast<CUresult>(refusal));
  lock(server.get(), directory);
  std::istringstream line(read_start(server.get()));
  int most = 0;
  if (!(line >> server_ >> server_start_ >> most) || server_ <= 0 || server_start_ == 0 || most < 0)
    refuse(directory, "its emulated_server does not say \"PID START_TIME MAX_CLIENTS\"");
  require(alive(server_, server_start_), CUDA_ERROR_MPS_SERVER_NOT_READY);
  require(other_clients(directory) < most, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
  read_environment();
  const std::string file = directory + kClients + "/client." + std::to_string(getpid());
  unlink(file.c_str());  // this process's own, from before it called exec(); or of one that had its number
  const Descriptor own(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  const std::string text = std::to_string(getpid()) + " " + std::to_string(process_start(getpid())) + " " +
                           std::to_string(getuid()) + " " + std::to_string(priority_) + "\n";
  if (own.get() < 0 || write(own.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    refuse(directory, std::string("couldn't write client.") + std::to_string(getpid()) + ": " + strerror(errno));
  g_client_file = strdup(file.c_str());
  g_client_pid = getpid();
  client_ = true;
}

// What a client cannot use it does without, and says so.
void MpsClient::read_environment() {
  const std::string priority = environment("CUDA_MPS_CLIENT_PRIORITY");
  priority_ = priority == "1" ? 1 : 0;
  if (!priority.empty() && priority != "0" && priority != "1")
    say("emucuda: CUDA_MPS_CLIENT_PRIORITY=" + priority + " is ignored: it can be 0 (normal) or 1 (below normal)");
  const std::string percentage = environment("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  char* end = nullptr;
  const double share = strtod(percentage.c_str(), &end);
  if (!percentage.empty() && *end == '\0' && share > 0 && share <= 100) {
    multiprocessors_ = multiprocessors_of(share);
  } else if (!percentage.empty()) {
    say("emucuda: CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=" + percentage + " is ignored: it can be above 0 and up to 100");
  }
  try {
    memory_limits_ = parse_memory_limits(environment("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
  } catch (const std::runtime_error& error) {
    say(error.what());
  }
}

bool MpsClient::server_gone() const { return client_ && server_ != 0 && !alive(server_, server_start_); }

uint64_t MpsClient::memory_limit(int ordinal) const {
  const auto found = memory_limits_.find(ordinal);
  return !client_ || found == memory_limits_.end() ? UINT64_MAX : found->second;
}

}  // namespace emu
