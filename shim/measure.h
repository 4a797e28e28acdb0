/* Measuring (--fikit-measure): how long each kernel runs and how long the device then idles. */
#ifndef FIKIT_SHIM_MEASURE_H
#define FIKIT_SHIM_MEASURE_H

#include "device.h"

struct fikit_timed; /* a launch between its two events */

struct fikit_measure *fikit_measure_new(void);

/* Record the start of a launch on `stream`; NULL when it cannot be timed (capture, no event left). */
struct fikit_timed *fikit_measure_begin(struct fikit_device *device, CUstream stream);

/* Record its end. `accepted`: the driver took the launch. */
void fikit_measure_end(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot,
                       bool accepted);

/* Turn the launches that have completed into ENTRY_SAMPLE and ENTRY_GAP. Does nothing unless measuring. */
void fikit_measure_harvest(struct fikit_device *device);

void fikit_measure_forget_context(struct fikit_device *device, CUcontext context);

#endif
