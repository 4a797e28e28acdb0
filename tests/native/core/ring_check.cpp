// What a dispatcher reads from a ring, in manual time. Standard input: `claim COUNT` reports, `finish NUMBER` of them (from 0),
// `gone` is their writer, and `read T_NS`: prints the numbers of what it finds then, and "lost" where some were.
#include <iostream>
#include <memory>
#include <string>

#include "dispatcher/ring.hpp"

int main() {
  const auto page = std::make_unique<fikit_page>();
  fikit::dispatcher::Ring ring;
  std::uint64_t number = 0;
  for (std::string word; std::cin >> word;) {
    if (word == "gone") {
      ring.writer_gone();
      continue;
    }
    std::cin >> number;
    if (word == "claim") {
      for (; number > 0; --number) page->ring[page->ring_head++ % FIKIT_RING_ENTRIES].stamp = 0;
    } else if (word == "finish") {
      fikit_entry& entry = page->ring[number % FIKIT_RING_ENTRIES];
      entry.value = number;
      entry.stamp = number + 1;
    } else if (word == "read") {
      fikit::dispatcher::Report report;
      std::string found;
      while (ring.next(*page, static_cast<std::int64_t>(number), report)) found += std::to_string(report.value) + ' ';
      std::cout << found << (ring.take_lost() ? "lost" : "") << '\n';
    } else {
      return 1;
    }
  }
}
