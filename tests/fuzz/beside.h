/* What targets share whose input is a row of operations (each declares `struct op`) on tables that several threads of a program use. */
#ifndef FIKIT_FUZZ_BESIDE_H
#define FIKIT_FUZZ_BESIDE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct op;

static _Atomic bool over; /* the thread beside ends */

static void check(bool condition) {
  if (!condition)
    abort();
}

/* The input, twice: alone, then with a thread that does what `beside` says until `over`; `empty` after each time. bytes: of an operation. */
static void play_alone_and_beside(const uint8_t *data, size_t size, size_t bytes, void (*play)(const struct op *op, bool alone),
                                  void *(*beside)(void *argument), void (*empty)(void)) {
  _Alignas(max_align_t) uint8_t op[64];
  pthread_t other;
  check(bytes <= sizeof op);
  for (int threads = 1; threads <= 2; threads++) {
    over = false;
    if (threads == 2)
      pthread_create(&other, NULL, beside, NULL);
    for (size_t at = 0; at + bytes <= size; at += bytes) {
      memcpy(op, data + at, bytes);
      play((const struct op *)op, threads == 1);
    }
    over = true;
    if (threads == 2)
      pthread_join(other, NULL);
    empty();
  }
}

#endif
