// A profile as one block of bytes: what a run has learnt on its way to storage, and what runs before it have learnt on its way
// back. fikitd hands such blocks on as they are, so that its own process never takes a profile apart
// (fikitd/fikitd/workers/pool.py). They never lie on storage and never leave the node: the layout may change with every build.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "client.hpp"

namespace fikit::dispatcher {

// Everything with the kernels' names, empty when nothing is known; or the statistics alone, by identity, which is all that
// predictions need. Of a profile that takes more than `limit` bytes, what is known in any context comes first, then that of single
// contexts, then where the host waits; what has no room is left out.
enum class Names : bool { without, with };
std::string pack(const Timed& timed, const forecaster::Learnt& learnt, Names names, std::size_t limit);

// The bytes come from a process with a user's rights: whatever they say, nothing is read out of bounds, and entries that cannot be
// are left out. False: it is no such block, and nothing of it is to be used.
bool unpack(std::string_view bytes, Timed& timed, forecaster::Learnt& learnt);

} // namespace fikit::dispatcher
