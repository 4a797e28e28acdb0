/* Hash of a module's image: which code a kernel's name belongs to. */
#ifndef FIKIT_SHIM_IMAGE_HASH_H
#define FIKIT_SHIM_IMAGE_HASH_H

#include <stdint.h>

/* Hash of an image in memory (ELF cubin, PTX text, fat binary or its wrapper), or in a file. 0: unknown form. It covers the size and the first
 * MiB: libraries have hundreds of MiB, which would have to be read from disk. */
uint64_t fikit_image_hash(const void *image);
uint64_t fikit_image_hash_file(const char *path);

#endif
