/* GPU memory of the job: what its processes hold on a GPU, the limit that they share (--fikit-mem), and how programs see it. */
#ifndef FIKIT_SHIM_MEMORY_H
#define FIKIT_SHIM_MEMORY_H

#include "base/device.h"

/* Count `bytes` as held, before the driver is asked for them. False: they do not fit below the job's limit, nothing is
 * counted, and the first time one line says so. `device` NULL: not managed, always true. Movable: managed memory, which may lie on
 * the host where the job has host memory; all else counts against what it has on the GPU, too. */
bool fikit_memory_reserve(struct fikit_device *device, uint64_t bytes);
bool fikit_memory_reserve_movable(struct fikit_device *device, uint64_t bytes);

/* The driver gave what was reserved: that is what peaks are about, not what a program tried. */
void fikit_memory_kept(struct fikit_device *device);

/* The driver refused, or took the memory back. */
void fikit_memory_return(struct fikit_device *device, uint64_t bytes);
void fikit_memory_return_movable(struct fikit_device *device, uint64_t bytes);

/* How much of the job's memory may lie in host memory; 0: none. */
uint64_t fikit_memory_host_bytes(const struct fikit_device *device);

/* What the driver says about this GPU's memory, narrowed to the job's limit, which is more than the GPU's where the job has host memory; false: there is none. Either pointer may be
 * NULL. */
bool fikit_memory_narrow(const struct fikit_device *device, uint64_t *free_bytes, uint64_t *total_bytes);

#endif
