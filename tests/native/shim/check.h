/* Ends a test program with the place and the words of the condition that does not hold. */
#ifndef FIKIT_TESTS_CHECK_H
#define FIKIT_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) {                                              \
      printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                       \
    }                                                                \
  } while (0)

#endif
