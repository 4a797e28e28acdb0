/* Priorities by name and number, FIKIT's Q0..Q9: the same table as fikitd.base.priorities and fikit_submit.lua. */
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

/* "auto:LOW-HIGH", two priorities between which fikitd chooses; or "auto", which sets both to -1: the site's default priority and what is
 * below it (fikit_auto_range). False for anything else. */
bool fikit_parse_range(const char *text, int *highest, int *lowest);

/* The range of "auto" where jobs that name no priority have this one. */
void fikit_auto_range(int unnamed, int *highest, int *lowest);

#endif
