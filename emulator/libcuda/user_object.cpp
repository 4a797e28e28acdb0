// User objects: a reference count with a destructor, which graphs can hold.
#include <atomic>

#include "driver.hpp"

using namespace emu;

namespace {

struct UserObject : Object {
  static constexpr ObjectKind kKind = ObjectKind::user_object;
  UserObject(void* d, CUhostFn f, unsigned n) : Object(kKind), data(d), destroy(f), references(n) {}
  void* data;
  CUhostFn destroy;
  std::atomic<unsigned> references;
};

void release(UserObject& object, unsigned count) {
  if (object.references.fetch_sub(count) > count) return;
  object.destroy(object.data);
  delete &object;
}

}  // namespace

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

// A graph's references live until the program gives them back by name: graphs here hold no parameters that need them.
CU_EXPORT CUresult cuGraphRetainUserObject(CUgraph, CUuserObject object, unsigned count, unsigned flags) {
  constexpr unsigned kMove = 1;  // the caller's references become the graph's
  return api([&] {
    auto& held = from_handle<UserObject>(object);
    if ((flags & kMove) == 0) held.references += count;
  });
}

CU_EXPORT CUresult cuGraphReleaseUserObject(CUgraph, CUuserObject object, unsigned count) {
  return api([&] { release(from_handle<UserObject>(object), count); });
}
