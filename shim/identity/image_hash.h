/* Hash of a module's image: which code a kernel's name belongs to. */
#ifndef FIKIT_SHIM_IMAGE_HASH_H
#define FIKIT_SHIM_IMAGE_HASH_H

#include <stdint.h>

/* Of an image in memory (ELF cubin, PTX text, fat binary or its wrapper) / in a file. 0: form not known. Counts the
 * whole size but only the first MiB: libraries bring hundreds of MiB that would have to be read from disk. */
uint64_t fikit_image_hash(const void *image);
uint64_t fikit_image_hash_file(const char *path);

#endif
