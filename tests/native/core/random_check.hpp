// What checks that play random changes have in common: PROGRAM SEED CHANGES says "done", or what answered otherwise.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <random>
#include <string>

struct RandomCheck {
  const char* otherwise; // what it says then
  bool (*plays)(std::mt19937& dice, int changes);
};

inline int play(int argc, char** argv, std::initializer_list<RandomCheck> checks) {
  if (argc != 3) return 2;
  std::mt19937 dice(static_cast<unsigned>(std::stoul(argv[1])));
  const int changes = std::stoi(argv[2]);
  for (const RandomCheck& check : checks) {
    if (check.plays(dice, changes)) continue;
    std::puts(check.otherwise);
    return 1;
  }
  std::puts("done");
  return 0;
}
