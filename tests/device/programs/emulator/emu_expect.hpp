// What the manual-time programs of the device model share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>

// Leaves the case with exit code 1 and says which line failed.
#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) {                                                \
      fprintf(stderr, "line %d: expected %s\n", __LINE__, #condition); \
      return 1;                                                        \
    }                                                                  \
  } while (0)

constexpr int64_t kUs = 1000;
constexpr int64_t kMs = 1'000'000;

struct Case {
  const char* name;
  int (*run)();
};
#define CASE(name) {#name, name}

// Runs the case of that name; without one, lists them all: the tests are parametrised by that list.
inline int run_cases(std::span<const Case> cases, int argc, char** argv) {
  if (argc == 1) {
    for (const Case& test : cases) puts(test.name);
    return 0;
  }
  for (const Case& test : cases) {
    if (strcmp(test.name, argv[1]) == 0) return test.run();
  }
  fprintf(stderr, "no case %s\n", argv[1]);
  return 2;
}
