/* The map from handles to names: growth, erasing, reuse. Prints nothing; exits with the number of the failed check. */
#include "base/handle_map.h"

#include <stdio.h>

static int checks;
#define CHECK(condition)                                                   \
  do {                                                                     \
    checks++;                                                              \
    if (!(condition)) {                                                    \
      fprintf(stderr, "check %d, line %d: %s\n", checks, __LINE__, #condition); \
      return 1;                                                            \
    }                                                                      \
  } while (0)

static HANDLE_MAP(map);

int main(void) {
  CHECK(handle_map_get(&map, 0x1000) == 0);
  for (uintptr_t i = 1; i <= 20000; i++)
    handle_map_put(&map, i << 8, i, i & 1 ? 0x70 : 0x80);
  for (uintptr_t i = 1; i <= 20000; i++)
    CHECK(handle_map_get(&map, i << 8) == i);

  handle_map_put(&map, 5 << 8, 77, 0x80);
  CHECK(handle_map_get(&map, 5 << 8) == 77);
  handle_map_erase(&map, 6 << 8);
  CHECK(handle_map_get(&map, 6 << 8) == 0);
  CHECK(handle_map_get(&map, 8 << 8) == 8);
  handle_map_erase_owner(&map, 0x70);
  for (uintptr_t i = 7; i <= 20000; i++)
    CHECK(handle_map_get(&map, i << 8) == (i & 1 ? 0 : i));
  CHECK(handle_map_get(&map, 5 << 8) == 77); /* it had changed its owner */

  size_t size = map.table->mask;
  for (uintptr_t i = 1; i <= 500000; i++) { /* loading and unloading for ever needs no more room */
    handle_map_put(&map, i << 8 | 1 << 4, i, 0);
    handle_map_erase(&map, i << 8 | 1 << 4);
  }
  CHECK(map.table->mask <= 2 * size + 1);
  handle_map_put(&map, 1, 5, 0); /* the map's own values are no handles */
  CHECK(handle_map_get(&map, 10 << 8) == 10);
  return 0;
}
