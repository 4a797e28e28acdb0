/* Events of a whole context: recorded behind all its streams, waited for by all of them. */
#include "../graphs.h"

CUresult cuCtxRecordEvent(CUcontext, CUevent), cuCtxWaitEvent(CUcontext, CUevent);

int main(void) {
  CUcontext context, other;
  CUmodule module = open_device(&context);
  CUfunction f = kernel(module, "fikit_spin"), add = kernel(module, "emu_increment");
  CUstream a, b, late, elsewhere;
  CUevent event, foreign, in_other;
  const CUdeviceptr counter = zeroed(4);
  OK(cuStreamCreate(&a, 1));
  OK(cuStreamCreate(&b, 1));
  OK(cuEventCreate(&event, 2));

  spin(f, LONG_NS, a);
  OK(increment(add, counter, a));
  spin(f, LONG_NS, b);
  OK(increment(add, counter, b));
  see("record", cuCtxRecordEvent(context, event));
  see("not_reached", cuEventQuery(event));
  OK(cuEventSynchronize(event));
  see("behind_all_streams", word(counter));

  const CUdeviceptr seen = zeroed(8);
  spin(f, LONG_NS, a);
  OK(increment(add, counter, a));
  OK(cuEventRecord(event, a));
  see("wait", cuCtxWaitEvent(context, event));
  OK(cuStreamCreate(&late, 1));
  OK(cuMemcpyDtoDAsync_v2(seen, counter, 4, b));
  OK(cuMemcpyDtoDAsync_v2(seen + 4, counter, 4, late));
  OK(cuStreamSynchronize(b));
  OK(cuStreamSynchronize(late));
  see("stream_waited", word(seen));
  see("later_stream_waited", word(seen + 4));

  OK(cuCtxCreate_v2(&other, 0, 0));
  OK(cuEventCreate(&foreign, 2));
  see("record_in_other_context", cuCtxRecordEvent(context, foreign));
  OK(cuStreamCreate(&elsewhere, 1));
  see("wait_for_other_context", cuCtxWaitEvent(other, event));
  see("record_without_context", cuCtxRecordEvent(NULL, event));
  OK(cuEventCreate(&in_other, 2));

  int state;
  OK(cuStreamBeginCapture_v2(elsewhere, RELAXED));
  see("record_in_capture", cuCtxRecordEvent(other, in_other));
  OK(cuStreamIsCapturing(elsewhere, &state));
  see("capture_is_spoilt", state);
  CUgraph graph;
  see("end_capture", cuStreamEndCapture(elsewhere, &graph));
  OK(cuStreamBeginCapture_v2(elsewhere, RELAXED));
  OK(cuEventRecord(in_other, elsewhere));
  see("wait_for_captured", cuCtxWaitEvent(context, in_other));
  see("end_second_capture", cuStreamEndCapture(elsewhere, &graph));
  return 0;
}
