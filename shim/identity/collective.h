/* Kernels that spin until their like on other GPUs run, too: known by name, by this list and by the site's. */
#ifndef FIKIT_SHIM_COLLECTIVE_H
#define FIKIT_SHIM_COLLECTIVE_H

#include "fikit_protocol.h"

#include <stdbool.h>

/* Of a kernel's name as the driver has it, mangled or not. Not on the launch path. */
bool fikit_is_collective(const char *name);

/* Learn the site's own names from a page: the first page's are the process's. */
void fikit_collectives_of_site(const struct fikit_page *page);

#endif
