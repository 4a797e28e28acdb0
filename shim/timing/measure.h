/* How long kernels run and how long the device then idles, by timing events: of every launch with --fikit-measure, else of
 * one launch in fikitd's sample_every. Two neighbours are timed together, because a gap lies between two.
 * Events say how long a kernel runs where its stream is busy when it is launched. On an idle stream they time its way to the
 * device, too, which is reckoned off (calibrate.h), and the sample says so. */
#ifndef FIKIT_SHIM_MEASURE_H
#define FIKIT_SHIM_MEASURE_H

#include "base/device.h"

struct fikit_timed; /* a launch between its two events */

/* Set up what the page asks for; false without memory. */
bool fikit_measure_start(struct fikit_device *device);

/* Shall the launch that begins now perhaps be timed? */
static inline bool fikit_measure_due(const struct fikit_device *device) {
  return atomic_load_explicit(&device->page->launch_seq, memory_order_relaxed) >=
         atomic_load_explicit(&device->time_from, memory_order_relaxed);
}

/* A kernel is launched for the first time: shall that be timed? Many run once only, and nothing else would be known of them. It
 * costs less than the loading of that kernel, and waits for no turn of its own among the samples. */
void fikit_measure_first(struct fikit_device *device);

/* Record the start of a launch on `stream`; NULL when it is not timed (capture, no event left, too much spent). `open`: it
 * did not wait at the gate, so that the time before it is the program's own. */
struct fikit_timed *fikit_measure_begin(struct fikit_device *device, CUstream stream, bool open);

/* Record its end. `seq`: its launch_seq, 0 = the driver refused it. called_ns: when the driver's call began. True: what else is done for
 * this sample counts as its cost (fikit_measure_spent). */
bool fikit_measure_end(struct fikit_device *device, struct fikit_timed *timed, CUstream stream, uint32_t slot,
                       uint64_t seq, int64_t called_ns);

/* Since start_ns, for a sample that counts. */
void fikit_measure_spent(struct fikit_device *device, int64_t start_ns);

/* Turn the launches that have completed into ENTRY_SAMPLE and ENTRY_GAP. */
void fikit_measure_harvest(struct fikit_device *device);

/* Have events ready for samples in the current context. Off the launch path. */
void fikit_measure_stock(struct fikit_device *device);

/* Returns when no thread is reading events that was when it was called. */
void fikit_measure_pass(struct fikit_device *device);

void fikit_measure_forget_context(struct fikit_device *device, CUcontext context);

#endif
