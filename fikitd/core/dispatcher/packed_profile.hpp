// A profile as one block of bytes, on its way between a dispatcher and a worker process, which reads and writes profile files
// (fikitd/fikitd/workers/pool.py). fikitd's own process hands the blocks on unread. They are never stored and never leave the node: the
// layout may change with every build.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "client.hpp"

namespace fikit::dispatcher {

// With names: everything, or nothing (empty) where nothing is known. Without: the statistics by identity, which is all that predictions
// need. Where `limit` bytes are not enough, the statistics over all contexts come first, then those of single contexts, then where the host
// waits; the rest is left out.
enum class Names : bool { without, with };
std::string pack(const Timed& timed, const forecaster::Learnt& learnt, Names names, std::size_t limit);

// The bytes come from a process with a user's rights. Whatever they are, nothing is read out of bounds, and impossible entries are left
// out. False: it is no such block; the results must not be used.
bool unpack(std::string_view bytes, Timed& timed, forecaster::Learnt& learnt);

} // namespace fikit::dispatcher
