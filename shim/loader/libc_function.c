/*
 * dlsym cannot be asked for dlsym and dlvsym, since both are hooked by us (and dlvsym's own name would find our hook:
 * an unversioned definition satisfies every version). So the dynamic symbol table of libc is read directly.
 * A sanitizer's runtime looks its originals up here before strcmp and the like, which it intercepts, can be called.
 */
#include "loader/libc_function.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* Weak, so that a loader without it (musl's) loads this library, and the linker asks for none by name. */
#pragma weak _r_debug

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

/* The part of a name that is the same for every architecture. */
static bool begins(const char *name, const char *with) {
  while (*with && *name == *with)
    name++, with++;
  return !*with;
}

static bool is_libc(const char *path) {
  const char *file = path;
  for (const char *c = path; c && *c; c++)
    if (*c == '/')
      file = c + 1;
  if (!file)
    return false;
  return fikit_is_glibc() ? equal(file, "libc.so.6") || equal(file, "libdl.so.2")
                          : equal(file, "libc.so") || begins(file, "ld-musl-") || begins(file, "libc.musl-");
}

/* musl has no symbol for its list of objects: where that is stands in the program's own dynamic section, for debuggers. */
static int find_debug(struct dl_phdr_info *program, size_t size, void *debug) {
  (void)size;
  for (int i = 0; i < program->dlpi_phnum; i++) {
    if (program->dlpi_phdr[i].p_type != PT_DYNAMIC)
      continue;
    const ElfW(Dyn) *entry = (const void *)(program->dlpi_addr + program->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; entry++)
      if (entry->d_tag == DT_DEBUG)
        *(const struct r_debug **)debug = (const void *)entry->d_un.d_ptr;
  }
  return 1; /* the program comes first; the others are of no interest */
}

bool fikit_is_glibc(void) {
  return &_r_debug != NULL;
}

const struct link_map *fikit_objects(void) {
  if (fikit_is_glibc())
    return _r_debug.r_map;
  const struct r_debug *debug = NULL;
  dl_iterate_phdr(find_debug, &debug);
  return debug ? debug->r_map : NULL;
}

/* glibc has turned the addresses of this section into absolute ones, musl has not. */
static struct symbols symbols_of(const struct link_map *object) {
  struct symbols found = {NULL, NULL, NULL};
  const ElfW(Addr) base = fikit_is_glibc() ? 0 : object->l_addr;
  for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB)
      found.table = (const void *)(base + entry->d_un.d_ptr);
    else if (entry->d_tag == DT_STRTAB)
      found.names = (const void *)(base + entry->d_un.d_ptr);
    else if (entry->d_tag == DT_GNU_HASH)
      found.gnu_hash = (const void *)(base + entry->d_un.d_ptr);
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
  for (const struct link_map *object = fikit_objects(); object; object = object->l_next) {
    if (!is_libc(object->l_name))
      continue;
    struct symbols symbols = symbols_of(object);
    const ElfW(Sym) *found = symbols.table && symbols.names && symbols.gnu_hash ? search(&symbols, name) : NULL;
    if (found)
      return (void *)(object->l_addr + found->st_value);
  }
  return NULL;
}
