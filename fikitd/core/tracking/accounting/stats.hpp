// The figures of a client's report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "moves.hpp"
#include "wait_book.hpp"

namespace fikit::tracking {

// See docs/design/contracts.md, "Report records". Times in ns.
struct Stats {
#define COUNTER(type, name, adds) type name{};
#include "counters.def"
#undef COUNTER
  struct Held {
    WaitSum sum;
    std::string kernel;                // the waiting one; "" where it does not matter, or is not known
    std::optional<double> p90_ns;      // of that kernel
  };
  Spent spent;            // where its time went
  std::vector<Held> held; // its waits by reason, in no order
  Moves moves;               // its memory that may leave the GPU; all 0: it has none
  std::int64_t heard_ns = 0; // time of the dispatcher's round that last found something new of it
};

} // namespace fikit::tracking
