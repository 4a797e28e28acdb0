// A policy written in Python: what LevelPolicy asks is asked of an object of fikitd.simulation.policy.Policy. Its events,
// decisions and methods have the names of the C++ ones, and LevelPolicy is between it and the clients as everywhere: it decides about
// one level and knows those below by what they were granted.
#pragma once

#include <nanobind/nanobind.h>

#include "policy/policy.hpp"

namespace fikit::simulator {

// make: without arguments, returns such an object; called once for each level. Who drives the policy holds the GIL. What it raises
// comes through; an answer that no policy may give is a fikitd._simulator.NotAllowed.
policy::Policy::Make python_policy(nanobind::object make);

void bind_policy(nanobind::module_& m);

} // namespace fikit::simulator
