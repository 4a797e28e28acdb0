// A job's profile, as a measuring run alone on the device would give it: durations, and the idle times after each kernel.
#pragma once

#include <cstddef>

#include "predictor/model.hpp"
#include "trace.hpp"

namespace fikit::simulator {

predictor::Model learn(const Trace& trace, std::size_t passes);

} // namespace fikit::simulator
