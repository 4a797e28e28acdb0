#include "fikit_priority.h"

#include <stddef.h>
#include <string.h>

#define WORD_BYTES 16 /* longer than any priority */

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

bool fikit_parse_range(const char *text, int *highest, int *lowest) {
  static const char begin[] = "auto:";
  char word[WORD_BYTES];
  int low = 0;
  int high = 0;
  if (strcmp(text, "auto") == 0) {
    *highest = *lowest = -1;
    return true;
  }
  if (strncmp(text, begin, sizeof begin - 1) != 0)
    return false;
  text += sizeof begin - 1;
  const size_t length = strcspn(text, "-");
  if (text[length] == '\0' || length >= sizeof word)
    return false;
  memcpy(word, text, length);
  word[length] = '\0';
  if (!fikit_parse_priority(word, &low) || !fikit_parse_priority(text + length + 1, &high))
    return false;
  *highest = low < high ? low : high;
  *lowest = low < high ? high : low;
  return true;
}

void fikit_auto_range(int unnamed, int *highest, int *lowest) {
  *highest = unnamed;
  *lowest = unnamed > FIKIT_PRIORITY_LOW ? unnamed : FIKIT_PRIORITY_LOW;
}
