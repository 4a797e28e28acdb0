// The bound of the harvest, and what it starts from, as Python sees them.
#pragma once

#include <nanobind/nanobind.h>

namespace fikit::simulator {

void bind_bound(nanobind::module_& m);

} // namespace fikit::simulator
