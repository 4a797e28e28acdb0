#include "fikit_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The character at `text` and its number of bytes; 0 bytes where it is no UTF-8, -1 where the text ends inside it. */
static int decode(const unsigned char *text, uint32_t *character) {
  static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
  const int length = text[0] < 0x80 ? 1 : text[0] < 0xc0 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : text[0] < 0xf8 ? 4 : 0;
  *character = length == 1 ? text[0] : text[0] & (0x7fU >> length);
  for (int i = 1; i < length; i++) {
    if (text[i] == '\0')
      return -1;
    if ((text[i] & 0xc0) != 0x80)
      return 0;
    *character = *character << 6 | (text[i] & 0x3fU);
  }
  const bool surrogate = *character >= 0xd800 && *character < 0xe000;
  return length == 0 || *character < lowest[length] || *character > 0x10ffff || surrogate ? 0 : length;
}

/* Also what only some readers take for the end of a line: U+0085, U+2028 and U+2029. */
static bool is_control(uint32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x2028 || character == 0x2029;
}

void fikit_printable(const char *text, char *clean, size_t size) {
  size_t used = 0;
  while (*text) {
    uint32_t character = 0;
    const int length = decode((const unsigned char *)text, &character);
    if (length < 0)
      break;
    const size_t bytes = length ? (size_t)length : 1;
    if (used + bytes >= size)
      break;
    if (!length)
      clean[used++] = '?';
    else if (!is_control(character)) {
      memcpy(clean + used, text, bytes);
      used += bytes;
    }
    text += bytes;
  }
  clean[used] = '\0';
}
