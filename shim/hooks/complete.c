#include "hooks/complete.h"
#include "base/monitor.h"
#include "gate/carry.h"
#include "gate/marker.h"
#include "identity/identity.h"
#include "timing/measure.h"

/* Markers, samples, descriptions; is there another plan; and whether fikitd is still there. */
static void report(struct fikit_device *device) {
  fikit_markers_poll(device);
  fikit_measure_harvest(device);
  fikit_identity_send(device);
  fikit_plan_notice(device);
  fikit_monitor_look(device, FIKIT_LOOK_RUNNING_NS);
  fikit_wait_over();
}

void fikit_complete_stream(struct fikit_stream *stream, uint64_t issued, int64_t began_ns) {
  fikit_stream_drained(stream, issued, began_ns);
  report(stream->device);
}

void fikit_complete_context(const struct fikit_drain *drain) {
  fikit_drain_end(drain);
  report(drain->device);
}
