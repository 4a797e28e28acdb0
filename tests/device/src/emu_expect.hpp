// What the manual-time programs of the device model share.
#pragma once

#include <cstdint>
#include <cstdio>

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
