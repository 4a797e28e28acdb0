#include "fikit_quantities.h"

#include <stddef.h>
#include <string.h>

#define MILLION 1000000U
#define MOST_DIGITS 12
#define MOST_PLACES 6
#define LONGEST_NS UINT64_C(3600000000000)
#define MOST_SIZE_DIGITS 16
#define MOST_BYTES (UINT64_C(1) << 53)

static const char digits[] = "0123456789";

bool fikit_parse_size(const char *text, uint64_t *bytes) {
  static const char units[] = "KMGT";
  const size_t length = strspn(text, digits);
  uint64_t number = 0;
  unsigned shift = 20;
  if (length == 0 || length > MOST_SIZE_DIGITS)
    return false;
  for (size_t i = 0; i < length; i++)
    number = number * 10 + (uint64_t)(text[i] - '0');
  text += length;
  if (*text) {
    const char *unit = strchr(units, *text & ~0x20);
    if (!unit || !*unit)
      return false;
    shift = 10U * (unsigned)(unit - units + 1);
    text++;
    if (*text && strcasecmp(text, "B") != 0 && strcasecmp(text, "iB") != 0)
      return false;
  }
  if (number == 0 || number > MOST_BYTES >> shift)
    return false;
  *bytes = number << shift;
  return true;
}

/* Digits, and maybe a dot and more digits, as millionths; what comes after them in *rest. */
static bool parse_decimal(const char *text, uint64_t *millionths, const char **rest) {
  const size_t whole = strspn(text, digits);
  if (whole == 0 || whole > MOST_DIGITS)
    return false;
  uint64_t value = 0;
  for (size_t i = 0; i < whole; i++)
    value = value * 10 + (uint64_t)(text[i] - '0');
  value *= MILLION;
  text += whole;
  if (*text == '.') {
    const size_t places = strspn(++text, digits);
    if (places == 0 || places > MOST_PLACES)
      return false;
    uint64_t unit = MILLION;
    for (size_t i = 0; i < places; i++)
      value += (uint64_t)(text[i] - '0') * (unit /= 10);
    text += places;
  }
  *millionths = value;
  *rest = text;
  return true;
}

bool fikit_parse_share(const char *text, int32_t *ppm) {
  uint64_t value = 0;
  const char *rest = NULL;
  if (!parse_decimal(text, &value, &rest) || (strcmp(rest, "") != 0 && strcmp(rest, "%") != 0))
    return false;
  const uint64_t all = *rest == '%' ? 100 : 1;
  if (value > all * MILLION)
    return false;
  *ppm = (int32_t)(value / all);
  return true;
}

bool fikit_parse_time(const char *text, int64_t *ns) {
  static const struct {
    const char *name;
    uint64_t ns;
  } units[] = {{"ns", 1}, {"us", 1000}, {"\302\265s", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  uint64_t value = 0;
  const char *rest = NULL;
  if (!parse_decimal(text, &value, &rest))
    return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(rest, units[i].name) != 0 || value > LONGEST_NS * MILLION / units[i].ns)
      continue;
    *ns = (int64_t)(value * units[i].ns / MILLION);
    return true;
  }
  return false;
}
