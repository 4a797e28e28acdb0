#include "fikit_priority.h"

#include <stddef.h>
#include <string.h>

static const struct {
  const char *name;
  int priority;
} names[] = {
    {"high", FIKIT_PRIORITY_HIGH},
    {"normal", FIKIT_PRIORITY_NORMAL},
    {"low", FIKIT_PRIORITY_LOW},
};

bool fikit_parse_priority(const char *text, int *priority) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i].name) == 0) {
      *priority = names[i].priority;
      return true;
    }
  }
  if (text[0] < '0' || text[0] > '9' || text[1] != '\0')
    return false;
  *priority = text[0] - '0';
  return true;
}
