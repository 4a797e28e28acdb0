// The numbers that a fikitd gives plans which goes on with a client at a moment: plan_numbers NOW_NS COUNT prints so many.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "dispatcher/plan_words.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  const auto page = std::make_unique<fikit_plan>();
  fikit::dispatcher::PlanWords words(page.get());
  words.resume(std::strtoll(argv[1], nullptr, 10));
  for (int left = std::atoi(argv[2]); left > 0; --left) {
    const std::uint32_t number = words.set(1, 1, {}, 0);
    if (page->number != number || words.state().number != number) return 1;
    std::cout << number << '\n';
  }
}
