/*
 * What the device does as it does kernels: memsets, copies within the device. Each of them passes the gate as a launch, each size class as a kernel of its own. The
 * page's fills_ask says whether; where it does not, they pass.
 */
#ifndef FIKIT_SHIM_FILL_H
#define FIKIT_SHIM_FILL_H

#include "hooks/launch.h"

enum fikit_fill { FIKIT_MEMSET, FIKIT_COPY_WITHIN, FIKIT_COPY_PEER, FIKIT_DECOMPRESSION, FIKIT_FILLS };

/* Before and after the driver's own call on this stream (NULL not allowed). `rows`: pieces of memory, which take longer than one of so many bytes. The end is that of any
 * launch: fikit_launch_end(). */
struct fikit_launch fikit_fill_begin(CUstream stream, enum fikit_fill fill, size_t bytes, size_t rows);

#endif
