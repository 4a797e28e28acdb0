#include "identity/image_hash.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HASHED_BYTES = 1 << 20 };

#define WRAPPER_MAGIC UINT32_C(0x466243b1) /* what nvcc embeds: points to the fat binary */
#define FATBIN_MAGIC UINT32_C(0xba55ed50)

struct wrapper {
  uint32_t magic, version;
  const void *data;
  const void *name;
};

struct fatbin {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes; /* without the header */
};

static uint64_t hash(const unsigned char *bytes, size_t available, uint64_t size) {
  uint64_t result = UINT64_C(0xcbf29ce484222325) ^ size, word;
  if (available > HASHED_BYTES)
    available = HASHED_BYTES;
  for (; available >= 8; bytes += 8, available -= 8) {
    memcpy(&word, bytes, 8);
    result = (result ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    result ^= result >> 32;
  }
  word = 0;
  memcpy(&word, bytes, available);
  result = (result ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return (result ^ result >> 32) | 1; /* 0 means unknown */
}

/* An ELF file ends with its section or program headers, whichever come later. */
static uint64_t elf_bytes(const Elf64_Ehdr *elf) {
  uint64_t end = elf->e_shoff + (uint64_t)elf->e_shnum * elf->e_shentsize;
  uint64_t programs = elf->e_phoff + (uint64_t)elf->e_phnum * elf->e_phentsize;
  return programs > end ? programs : end;
}

uint64_t fikit_image_hash(const void *image) {
  const unsigned char *bytes = image;
  uint32_t magic;
  if (!image)
    return 0;
  if (bytes[0] != 0x7f && bytes[0] < 0x80 && bytes[0] != (WRAPPER_MAGIC & 0xff) && bytes[0] != (FATBIN_MAGIC & 0xff)) {
    size_t length = strlen(image); /* PTX text */
    return length ? hash(image, length, length) : 0;
  }
  memcpy(&magic, image, sizeof magic);
  if (magic == WRAPPER_MAGIC)
    return fikit_image_hash(((const struct wrapper *)image)->data);
  if (magic == FATBIN_MAGIC) {
    uint64_t size = ((const struct fatbin *)image)->header_bytes + ((const struct fatbin *)image)->bytes;
    return hash(image, size, size);
  }
  if (memcmp(image, ELFMAG, SELFMAG) == 0) {
    uint64_t size = elf_bytes(image);
    return hash(image, size, size);
  }
  return 0;
}

uint64_t fikit_image_hash_file(const char *path) {
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  unsigned char *bytes = fd >= 0 ? malloc(HASHED_BYTES) : NULL;
  uint64_t result = 0;
  if (bytes) {
    ssize_t got = read(fd, bytes, HASHED_BYTES);
    off_t size = lseek(fd, 0, SEEK_END);
    if (got > 0 && size > 0)
      result = hash(bytes, (size_t)got, (uint64_t)size);
  }
  free(bytes);
  if (fd >= 0)
    close(fd);
  return result;
}
