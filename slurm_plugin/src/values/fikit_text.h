/* Texts that users wrote, before they stand in a file of root's. */
#ifndef FIKIT_TEXT_H
#define FIKIT_TEXT_H

#include <stddef.h>

/* As much of `text` as fits into `clean`, as UTF-8 on one line: without control characters and line separators, with ? for
 * what is no UTF-8, and cut between two characters. */
void fikit_printable(const char *text, char *clean, size_t size);

#endif
