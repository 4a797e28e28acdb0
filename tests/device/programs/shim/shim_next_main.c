#include <stdio.h>

const char *who_is_next(void);

int main(void) {
  return puts(who_is_next()) < 0;
}
