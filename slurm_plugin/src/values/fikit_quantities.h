/* Sizes, shares and times as people write them: as slurmctld's fikit_values.lua and fikitd.base.quantities read them. */
#ifndef FIKIT_QUANTITIES_H
#define FIKIT_QUANTITIES_H

#include <stdbool.h>
#include <stdint.h>

/* "20G", "512M", "16GiB", up to 8 PiB; a plain number is MB, as for --mem. False, and *bytes as it was, for anything else. */
bool fikit_parse_size(const char *text, uint64_t *bytes);

/* "5%" or "0.05", from 0 to 100 %, as millionths. False, and *ppm as it was, for anything else. */
bool fikit_parse_share(const char *text, int32_t *ppm);

/* "200us", "1.5ms", "2s", an hour at most. False, and *ns as it was, for anything else. */
bool fikit_parse_time(const char *text, int64_t *ns);

#endif
