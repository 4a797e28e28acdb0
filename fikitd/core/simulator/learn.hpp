// A job's profile, as a measuring run alone on the device would give it: durations, and the idle times after each kernel.
#pragma once

#include <cstddef>

#include "job.hpp"

namespace fikit::simulator {

Profile learn(const Trace& trace, std::size_t passes);

} // namespace fikit::simulator
