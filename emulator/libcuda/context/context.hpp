// Contexts and streams: which device a call is about, and which queue of it.
#pragma once

#include <array>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "libcuda/driver/driver.hpp"

namespace emu {

struct Capture;
struct GraphNode;

// CUstreamAttrValue by CUstreamAttrID: kept as the program gave them, without effect.
using StreamAttributes = std::map<int, std::array<char, 64>>;

struct Stream : Object {
  static constexpr ObjectKind kKind = ObjectKind::stream;
  Stream() : Object(kKind) {}
  Context* context = nullptr;
  Queue* queue = nullptr;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  std::unique_ptr<StreamAttributes> attributes;  // those that were set
  std::shared_ptr<Capture> capture;      // set while calls on this stream are recorded instead of executed
  std::vector<GraphNode*> capture_tail;  // what the next recorded call depends on
};

// A point in a stream of the device.
struct Barrier {
  int slot = kNone;
  uint64_t seq = 0;
};

struct Context : Object {
  static constexpr ObjectKind kKind = ObjectKind::context;
  explicit Context(Device& d, unsigned f);
  Session& session() const { return *session_; }
  const Health& health() const { return health_; }
  Stream& legacy() { return *legacy_; }
  // The calling thread's own default stream, made at its first use.
  Stream& per_thread();
  Stream* create_stream(unsigned flags, int priority);
  // Waits for nothing: queued work is still done, then the slot is given back.
  void destroy_stream(Stream* stream);
  std::vector<Stream*> streams();  // only where no other thread destroys any
  void synchronize();
  // For events of the whole context: a stream of its own, and what everything that comes waits for.
  Stream& crossing();
  void hold_all_back(const Barrier& barrier);

  Device& device;
  const unsigned flags;
  const uint64_t id;
  bool primary = false;
  std::atomic<int> attached = 1;  // by cuCtxCreate and cuCtxAttach
  std::mutex peers_mutex;
  std::set<uint64_t> peers;  // ids of the contexts whose memory it may use; guarded by peers_mutex

 private:
  friend void destroy_context(Context* context);
  Stream* make_stream(unsigned flags, int priority);
  void hold_back(Stream& stream);
  Session* session_;
  const Health health_ = std::make_shared<std::atomic<CUresult>>(CUDA_SUCCESS);
  std::mutex mutex_;
  std::list<std::unique_ptr<Stream>> streams_;
  Stream* legacy_ = nullptr;
  std::mutex crossing_mutex_;  // guards the rest; taken before mutex_
  Stream* crossing_ = nullptr;
  std::optional<Barrier> barrier_;
};

// Ends the context's work, whether it would ever have ended or not; then frees its streams and memory.
void destroy_context(Context* context);

// The calling thread's current context; throws INVALID_CONTEXT when there is none, and what killed it when it is dead.
Context& current();
Context* current_or_null();
// Waits for the work of the current context, if there is one.
void synchronize_current();

// The stream behind a handle, the reserved ones included. Null is the legacy default stream, or the per-thread one
// inside a _ptsz/_ptds entry point. Throws what killed its context.
Stream& resolve(CUstream handle);

// While one of these lives, null streams of this thread mean the per-thread default stream.
class PerThreadDefault {
 public:
  PerThreadDefault();
  ~PerThreadDefault();
  PerThreadDefault(const PerThreadDefault&) = delete;
  PerThreadDefault& operator=(const PerThreadDefault&) = delete;

 private:
  bool before_;
};

// Executes a command in a stream. What can be captured is recorded instead (capture.hpp) before it comes to this, which
// fails in a captured stream.
void submit(Stream& stream, Command command);

}  // namespace emu
