/*
 * Instead of libFuzzer: gives a target the files of its corpus, then mutations of them, the same ones every time.
 * usage: PROGRAM RUNS FILE...   (C and C++: linked with targets of both)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C"
#endif
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 4096, FILES = 64 };

static struct {
  uint8_t bytes[MOST];
  size_t size;
} seeds[FILES];

static uint32_t state = 1;

static uint32_t dice(size_t sides) { /* xorshift */
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return (uint32_t)(state % sides);
}

/* One seed, often with another one behind it, a few bytes of it changed. */
static void run_one(size_t count) {
  static uint8_t input[2 * MOST];
  const size_t first = dice(count), second = dice(count);
  size_t size = seeds[first].size;
  memcpy(input, seeds[first].bytes, size);
  if (dice(2)) {
    memcpy(input + size, seeds[second].bytes, seeds[second].size);
    size += seeds[second].size;
  }
  for (uint32_t i = dice(12); i > 0; i--)
    input[dice(size)] = (uint8_t)dice(256);
  LLVMFuzzerTestOneInput(input, dice(8) ? size : dice(size));
}

int main(int argc, char **argv) {
  size_t count = 0;
  for (int i = 2; i < argc && count < FILES; i++) {
    FILE *file = fopen(argv[i], "rb");
    seeds[count].size = file ? fread(seeds[count].bytes, 1, MOST, file) : 0;
    if (!seeds[count].size)
      return 2;
    fclose(file);
    LLVMFuzzerTestOneInput(seeds[count].bytes, seeds[count].size);
    count++;
  }
  if (!count)
    return 2;
  const long runs = strtol(argv[1], NULL, 10);
  for (long run = 0; run < runs; run++)
    run_one(count);
  printf("%ld inputs\n", runs);
  return 0;
}
