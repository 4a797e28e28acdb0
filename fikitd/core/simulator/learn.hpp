// A job's profile, as a measuring run alone on the device would give it: durations, and the idle times after each kernel.
// The run ends with so many passes, or at until_ns. stored: as its file has it: kernels as events time them, of its rhythm and
// runs only what it saw twice, once their kernels were known. fills: JobOptions. tuning: of the fikitd that measured.
// timing_ns: timing a launch takes the host so long. 0: nothing, and then the profile also says where the host waits, as
// after another run, untimed and alone.
#pragma once

#include <cstddef>

#include "job.hpp"
#include "policy/base/tuning.hpp"

namespace fikit::simulator {

Profile learn(const Trace& trace, std::size_t passes, std::int64_t until_ns = kNever, bool stored = false,
              bool fills = true, const policy::Tuning& tuning = {}, std::int64_t timing_ns = 0);

} // namespace fikit::simulator
