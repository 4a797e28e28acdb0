// A recording as a job lives through it again and again: one pass is one request.
#pragma once

#include "plan.hpp"

namespace replay {

// A pass is what the recorded span covers, from the first call that gives the device work to the end of the last work:
// what the profiler saw before and after belongs to no request. Whoever waits keeps the whole host.
Plan make_pass(const Recording& recording);

// Everything takes so many times as long. Work keeps its length in the recording: stretch that too, once.
void stretch(Recording& recording, double factor);
void stretch(Plan& plan, double factor);

}  // namespace replay
