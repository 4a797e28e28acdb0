// User objects: a reference count with a destructor of the program's, which graphs can hold.
#pragma once

#include <map>

#include "libcuda/driver/driver_api.hpp"

namespace emu {

struct UserObject;

// A graph's references. A copy of the graph has references of its own; the last one to go calls the destructor.
class UserReferences {
 public:
  UserReferences() = default;
  UserReferences(const UserReferences& other) { *this = other; }
  UserReferences& operator=(const UserReferences& other);
  UserReferences(UserReferences&& other) noexcept { held_.swap(other.held_); }
  ~UserReferences() { drop(); }
  bool empty() const { return held_.empty(); }
  // Takes over `count` references.
  void add(UserObject& object, unsigned count) { held_[&object] += count; }
  // Throws INVALID_VALUE when it has not as many.
  void remove(UserObject& object, unsigned count);

 private:
  void drop();
  std::map<UserObject*, unsigned> held_;
};

}  // namespace emu
