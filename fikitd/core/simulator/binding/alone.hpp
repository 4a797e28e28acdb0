// A high job alone, from which the bound of the harvest starts, as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

namespace fikit::simulator {

void bind_alone(nanobind::module_& m);

} // namespace fikit::simulator
