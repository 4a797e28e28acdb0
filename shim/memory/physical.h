/* Physical memory without an address of its own: cuMemCreate and its mappings. */
#ifndef FIKIT_SHIM_PHYSICAL_H
#define FIKIT_SHIM_PHYSICAL_H

/* In the child of a fork. */
void fikit_physical_forget_all(void);

#endif
