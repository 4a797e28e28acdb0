// What a policy written in Python sees: the table of clients, events and grants, all of them to be read only.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>

#include "policy/base/level_policy.hpp"

namespace fikit::simulator {

class PythonPolicy;

// What Python keeps of a PythonPolicy: no pointer into it is valid for longer than it lives.
struct Level {
  PythonPolicy* policy = nullptr; // nullptr: its simulation is over
  std::uint64_t asked = 0;        // questions
  bool answering = false;
};

// A client, under its number. It is looked up whenever Python asks: it may have moved, or left.
struct Seen {
  std::shared_ptr<Level> level;
  policy::ClientId id = 0;

  policy::Client& client() const; // throws nanobind's exceptions for Python
};

// "client 1 (priority 8)".
std::string name_of(const policy::Client& client);

void bind_view(nanobind::module_& m);

} // namespace fikit::simulator
