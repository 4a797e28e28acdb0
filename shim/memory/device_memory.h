/* Which addresses are GPU memory that the program has allocated. Most copies do not say in their arguments which way they go; a reader of this table knows without a lock
 * and without a question to the driver. The table does not have all memory: managed memory, imported memory and what was allocated before fikitd answered are missing. */
#ifndef FIKIT_SHIM_DEVICE_MEMORY_H
#define FIKIT_SHIM_DEVICE_MEMORY_H

#include "base/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* The driver gave `bytes` at `base`, which go away with the context (NULL: with none). */
void fikit_device_memory_add(CUcontext context, uint64_t base, uint64_t bytes);

/* Before the driver takes it back. */
void fikit_device_memory_remove(uint64_t base);

/* False: no, or nobody knows, or another thread is just then changing the table. */
bool fikit_device_memory_has(uint64_t address);

void fikit_device_memory_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_device_memory_forget_all(void);

#endif
