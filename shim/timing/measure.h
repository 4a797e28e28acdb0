/* Measures with timing events how long kernels run and how long the device is idle after them: for every launch with --fikit-measure, else for one
 * launch in fikitd's sample_every. Two launches in a row are timed together, for the gap between them. What the events cost themselves is
 * subtracted (calibrate.h), and on an idle stream the launch's way to the device too, which the sample says. */
#ifndef FIKIT_SHIM_MEASURE_H
#define FIKIT_SHIM_MEASURE_H

#include "base/look.h"

struct fikit_timed; /* a launch between its two events */

/* Set up what the page asks for; false without memory. */
bool fikit_measure_start(struct fikit_device *device);

/* May the launch that begins now be timed? Asked only of launches that are looked at (base/look.h). */
static inline bool fikit_measure_due(const struct fikit_device *device) {
  return device->measure && fikit_look_is_from(device, &device->sample_from); /* launch_seq is whatever stands in the page */
}

/* A kernel is launched for the first time, which is timed in addition to the samples: many kernels run only once, and there would be no time of
 * them. It costs less than the loading of the kernel. */
void fikit_measure_first(struct fikit_device *device);

/* Record the event before a launch on `stream`; NULL: it is not timed (a capture, no event left, too much spent). `open`: it did not wait at the gate,
 * so that the time before it is the program's own. */
struct fikit_timed *fikit_measure_begin(struct fikit_device *device, CUstream stream, bool open);

/* Record its end. `seq`: its launch_seq, 0 = the driver refused it. called_ns: when the driver's call began. True: what else is done for
 * this sample counts as its cost (fikit_measure_spent). */
bool fikit_measure_end(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot,
                       uint64_t seq, int64_t called_ns);

/* Count the time since start_ns as cost of a sample. */
void fikit_measure_spent(struct fikit_device *device, int64_t start_ns);

/* Turn the launches that have completed into ENTRY_SAMPLE and ENTRY_GAP. */
void fikit_measure_harvest(struct fikit_device *device);

/* Have events ready for samples in the current context. Off the launch path. */
void fikit_measure_stock(struct fikit_device *device);

/* Returns once every thread that was reading events at the call has stopped. */
void fikit_measure_pass(struct fikit_device *device);

void fikit_measure_forget_context(struct fikit_device *device, CUcontext context);

#endif
