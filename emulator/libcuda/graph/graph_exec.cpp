#include "libcuda/graph/graph_exec.hpp"

#include "libcuda/graph/capture.hpp"
#include "libcuda/driver/host_thread.hpp"

namespace emu {

GraphExec::GraphExec(Graph& graph, uint64_t instantiate_flags) : Object(kKind), flags(instantiate_flags) {
  constexpr uint64_t kKnown = kAutoFreeOnLaunch | kUpload | kDeviceLaunch | kUseNodePriority;
  require((flags & ~kKnown) == 0 && !graph.capturing, CUDA_ERROR_INVALID_VALUE);
  require((flags & kDeviceLaunch) == 0, CUDA_ERROR_NOT_SUPPORTED);
  if (graph.has_memory_nodes()) {
    require(graph.instance.expired(), CUDA_ERROR_NOT_SUPPORTED);
    graph.instance = instance_;
  }
  graph_ = graph.copy(own_);
  flatten(*graph_);
}

// What the graph's users gave it stays until its launches are done; the program need not wait for that.
GraphExec::~GraphExec() {
  if (graph_->users.empty() || last_session_ == nullptr) return;
  auto wait = [session = last_session_, slot = last_slot_, seq = last_seq_, health = last_health_,
               users = std::make_shared<UserReferences>(std::move(graph_->users))] {
    session->wait_done(slot, seq, health);
  };
  start_quiet_thread(std::move(wait));
}

void GraphExec::flatten(const Graph& graph) {
  for (GraphNode* node : graph.ordered()) {
    if (const auto* inner = std::get_if<ChildNode>(&node->work.body)) {
      flatten(*inner->graph);
      continue;
    }
    order_.push_back(node);
    if (const auto* made = std::get_if<MemoryAllocNode>(&node->work.body)) memory_.allocates.push_back(made->memory);
    if (const auto* gone = std::get_if<MemoryFreeNode>(&node->work.body)) memory_.frees.push_back(gone->memory);
  }
}

GraphNode& GraphExec::own(CUgraphNode node) {
  const auto found = own_.find(reinterpret_cast<const GraphNode*>(node));
  require(found != own_.end(), CUDA_ERROR_INVALID_VALUE);
  return *found->second;
}

void GraphExec::replace(CUgraphNode handle, Work work) {
  GraphNode& node = own(handle);
  require(node.work.body.index() == work.body.index(), CUDA_ERROR_INVALID_VALUE);
  node.work = std::move(work);
}

UpdateReport GraphExec::update(const Graph& graph) {
  NodeMap pairs;  // of every depth
  const UpdateReport report = pair_graphs(*graph_, graph, pairs);
  if (report.result != UpdateResult::success) return report;
  for (const auto& [old, fresh] : pairs) {
    GraphNode& node = const_cast<GraphNode&>(*old);  // it is graph_'s
    if (node.type() != NodeType::graph) node.work = fresh->work;
  }
  return report;
}

void GraphExec::update_child(CUgraphNode handle, const Graph& child) {
  const auto* inner = std::get_if<ChildNode>(&own(handle).work.body);
  require(inner != nullptr, CUDA_ERROR_INVALID_VALUE);
  NodeMap pairs;
  require(pair_graphs(*inner->graph, child, pairs).result == UpdateResult::success, CUDA_ERROR_INVALID_VALUE);
  for (const auto& [old, fresh] : pairs) {
    GraphNode& node = const_cast<GraphNode&>(*old);
    if (node.type() != NodeType::graph) node.work = fresh->work;
  }
}

// The nodes run one after the other in the stream: the sum of their durations, no claim about a real device's overlap.
void GraphExec::launch(Stream& stream) {
  forbid_capture(stream);
  begin_launch(memory_, (flags & kAutoFreeOnLaunch) != 0, stream);
  Session& session = stream.context->session();
  Queue& queue = *stream.queue;
  if (last_session_ == &session && last_slot_ != queue.slot)
    session.enqueue(queue, Command{.wait_stream = last_slot_, .wait_seq = last_seq_});
  else if (last_session_ != nullptr && last_session_ != &session)
    last_session_->wait_done(last_slot_, last_seq_, last_health_);  // two devices are two models
  std::optional<uint64_t> last;
  for (const GraphNode* node : order_) {
    if (!node->enabled) continue;
    for (const Command& command : node->work.commands) last = session.enqueue(queue, command);
    if (!node->work.at_launch) continue;
    if (const auto seq = node->work.at_launch(stream)) last = seq;
  }
  if (!last) return;
  last_session_ = &session;
  last_health_ = stream.context->health();
  last_slot_ = queue.slot;
  last_seq_ = *last;
}

}  // namespace emu
