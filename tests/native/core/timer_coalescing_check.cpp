// Prints when a dispatcher wakes that waits from FROM_NS on for AFTER_NS. FROM_NS AFTER_NS ...
#include <cstdio>
#include <string>

#include "dispatcher/timer_coalescing.hpp"

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2)
    std::printf("%lld\n", static_cast<long long>(fikit::dispatcher::coalesced_ns(std::stoll(argv[i]), std::stoll(argv[i + 1]))));
}
