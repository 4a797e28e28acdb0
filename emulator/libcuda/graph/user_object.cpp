#include "libcuda/graph/user_object.hpp"

#include <atomic>

#include "libcuda/driver/driver.hpp"
#include "libcuda/graph/graph.hpp"

namespace emu {

struct UserObject : Object {
  static constexpr ObjectKind kKind = ObjectKind::user_object;
  UserObject(void* d, CUhostFn f, unsigned n) : Object(kKind), data(d), destroy(f), references(n) {}
  void* data;
  CUhostFn destroy;
  std::atomic<unsigned> references;
};

namespace {

void release(UserObject& object, unsigned count) {
  if (object.references.fetch_sub(count) > count) return;
  object.destroy(object.data);
  delete &object;
}

}  // namespace

UserReferences& UserReferences::operator=(const UserReferences& other) {
  if (this == &other) return *this;
  drop();
  held_ = other.held_;
  for (const auto& [object, count] : held_) object->references += count;
  return *this;
}

void UserReferences::remove(UserObject& object, unsigned count) {
  const auto found = held_.find(&object);
  require(found != held_.end() && found->second >= count, CUDA_ERROR_INVALID_VALUE);
  found->second -= count;
  if (found->second == 0) held_.erase(found);
  release(object, count);
}

void UserReferences::drop() {
  for (const auto& [object, count] : held_) release(*object, count);
  held_.clear();
}

}  // namespace emu

using namespace emu;

CU_EXPORT CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned references, unsigned) {
  return api([&] {
    require(out != nullptr && destroy != nullptr && references > 0, CUDA_ERROR_INVALID_VALUE);
    *out = to_handle<CUuserObject>(new UserObject(data, destroy, references));
  });
}

CU_EXPORT CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
  return api([&] { from_handle<UserObject>(object).references += count; });
}

CU_EXPORT CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  return api([&] { release(from_handle<UserObject>(object), count); });
}

CU_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  constexpr unsigned kMove = 1;  // the caller's references become the graph's
  return api([&] {
    require(count > 0 && (flags & ~kMove) == 0, CUDA_ERROR_INVALID_VALUE);
    auto& held = from_handle<UserObject>(object, CUDA_ERROR_INVALID_VALUE);
    if ((flags & kMove) == 0) held.references += count;
    graph_of(graph).users.add(held, count);
  });
}

CU_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return api(
      [&] { graph_of(graph).users.remove(from_handle<UserObject>(object, CUDA_ERROR_INVALID_VALUE), count); });
}
