/* Priorities by name and number, FIKIT's Q0..Q9: the same table as fikitd.priorities and fikit_submit.lua. */
#ifndef FIKIT_PRIORITY_H
#define FIKIT_PRIORITY_H

#include <stdbool.h>

#define FIKIT_PRIORITY_HIGHEST 0
#define FIKIT_PRIORITY_LOWEST 9
#define FIKIT_PRIORITY_HIGH 1
#define FIKIT_PRIORITY_NORMAL 5
#define FIKIT_PRIORITY_LOW 8

/* "high", "normal", "low" or one digit; false for anything else. */
bool fikit_parse_priority(const char *text, int *priority);

#endif
