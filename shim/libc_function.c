/*
 * dlsym cannot be asked for dlsym and dlvsym, since both are hooked by us (and dlvsym's own name would find our hook:
 * an unversioned definition satisfies every version). So the dynamic symbol table of libc is read directly.
 * A sanitizer's runtime looks its originals up here before strcmp and the like, which it intercepts, can be called.
 */
#include "libc_function.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols {
  const ElfW(Sym) * table;
  const char *names;
  const uint32_t *gnu_hash;
};

static bool equal(const char *a, const char *b) {
  while (*a && *a == *b)
    a++, b++;
  return *a == *b;
}

static bool is_libc(const char *path) {
  const char *file = path;
  for (const char *c = path; c && *c; c++)
    if (*c == '/')
      file = c + 1;
  return file && (equal(file, "libc.so.6") || equal(file, "libdl.so.2"));
}

/* glibc has turned the addresses of this section into absolute ones. */
static struct symbols symbols_of(const struct link_map *object) {
  struct symbols found = {NULL, NULL, NULL};
  for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB)
      found.table = (const void *)entry->d_un.d_ptr;
    else if (entry->d_tag == DT_STRTAB)
      found.names = (const void *)entry->d_un.d_ptr;
    else if (entry->d_tag == DT_GNU_HASH)
      found.gnu_hash = (const void *)entry->d_un.d_ptr;
  }
  return found;
}

static uint32_t hash_of(const char *name) {
  uint32_t hash = 5381;
  for (const unsigned char *c = (const void *)name; *c; c++)
    hash = hash * 33 + *c;
  return hash;
}

/* DT_GNU_HASH: number of buckets, first hashed symbol, words of the Bloom filter, its shift; filter; buckets; chains. */
static const ElfW(Sym) * search(const struct symbols *symbols, const char *name) {
  const uint32_t *header = symbols->gnu_hash;
  uint32_t bucket_count = header[0], first = header[1];
  const uint32_t *buckets = (const void *)((const ElfW(Addr) *)(header + 4) + header[2]);
  const uint32_t *chains = buckets + bucket_count;
  uint32_t hash = hash_of(name);
  uint32_t i = bucket_count ? buckets[hash % bucket_count] : 0;
  if (i < first)
    return NULL;
  for (;; i++) {
    const ElfW(Sym) *symbol = &symbols->table[i];
    if ((chains[i - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
        (symbol->st_info & 0xf) == STT_FUNC && equal(symbols->names + symbol->st_name, name))
      return symbol;
    if (chains[i - first] & 1)
      return NULL;
  }
}

void *fikit_libc_function(const char *name) {
  for (const struct link_map *object = _r_debug.r_map; object; object = object->l_next) {
    if (!is_libc(object->l_name))
      continue;
    struct symbols symbols = symbols_of(object);
    const ElfW(Sym) *found = symbols.table && symbols.names && symbols.gnu_hash ? search(&symbols, name) : NULL;
    if (found)
      return (void *)(object->l_addr + found->st_value);
  }
  return NULL;
}
