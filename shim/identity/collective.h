/* Collective kernels, which spin until their peers on other GPUs run: recognised by name, by this list and the site's. */
#ifndef FIKIT_SHIM_COLLECTIVE_H
#define FIKIT_SHIM_COLLECTIVE_H

#include "fikit_protocol.h"

#include <stdbool.h>

/* name: as the driver has it, mangled or not. Not called on the launch path. */
bool fikit_is_collective(const char *name);

/* Take the site's names from a page; only the first page of a process counts. */
void fikit_collectives_of_site(const struct fikit_page *page);

#endif
