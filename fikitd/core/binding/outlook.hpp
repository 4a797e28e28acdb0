// What `budget` is told of the future, for tests in manual time.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "policy/base/residual_time.hpp"

namespace fikit::binding {

// Eight times; one stands for all eight, none for unknown.
TimeQuantiles times(const std::vector<std::int64_t>& ns);

} // namespace fikit::binding
