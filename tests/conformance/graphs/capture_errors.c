/* What a capture does not bear: each error of its kind, and what is left of the capture. */
#include <pthread.h>

#include "../graphs.h"

static CUcontext g_context;
static CUfunction g_increment;
static CUdeviceptr g_counter;
static CUstream g_stream;

static CUresult end(CUstream stream) {
  CUgraph graph;
  return cuStreamEndCapture(stream, &graph);
}

/* Begins a capture with one node. */
static CUstream capturing(unsigned flags, int mode) {
  CUstream stream = new_stream(flags);
  OK(cuStreamBeginCapture_v2(stream, mode));
  OK(increment(g_increment, g_counter, stream));
  return stream;
}

static CUresult on_other_thread(void *(*function)(void *)) {
  pthread_t thread;
  void *result;
  CHECK(pthread_create(&thread, NULL, function, NULL) == 0 && pthread_join(thread, &result) == 0);
  return (CUresult)(intptr_t)result;
}

static void *end_there(void *unused) {
  (void)unused;
  OK(cuCtxSetCurrent(g_context));
  return (void *)(intptr_t)end(g_stream);
}

static CUresult allocate(void) {
  CUdeviceptr memory;
  return cuMemAlloc_v2(&memory, 64);
}

static void *allocate_there(void *unused) {
  (void)unused;
  OK(cuCtxSetCurrent(g_context));
  return (void *)(intptr_t)allocate();
}

static void waiting(void) {
  CUstream stream = capturing(1, GLOBAL);
  see("synchronize_captured_stream", cuStreamSynchronize(stream));
  see("then_it_is_invalidated", capture_state(stream));
  see("further_work", increment(g_increment, g_counter, stream));
  see("end_of_invalidated", end(stream));
  see("then_it_is_over", capture_state(stream));
  stream = capturing(1, GLOBAL);
  see("query_captured_stream", cuStreamQuery(stream));
  see("end_after_query", end(stream));
  stream = capturing(1, RELAXED);
  see("synchronize_context", cuCtxSynchronize());
  see("end_after_context", end(stream));
}

static void events(void) {
  CUevent event = new_event(), outside = new_event();
  CUstream stream = capturing(1, RELAXED), other, plain = new_stream(1);
  OK(cuEventRecord(event, stream));
  see("query_captured_event", cuEventQuery(event));
  see("end_after_event_query", end(stream));
  stream = capturing(1, RELAXED);
  OK(cuEventRecord(event, stream));
  see("synchronize_captured_event", cuEventSynchronize(event));
  see("end_after_event_synchronize", end(stream));

  stream = capturing(1, RELAXED);
  OK(cuEventRecord(outside, plain));
  see("wait_for_uncaptured_event", cuStreamWaitEvent(stream, outside, 0));
  see("end_after_isolation", end(stream));

  stream = capturing(1, RELAXED);
  other = capturing(1, RELAXED);
  OK(cuEventRecord(event, other));
  see("merge", cuStreamWaitEvent(stream, event, 0));
  see("end_after_merge", end(stream));
  see("end_of_the_other", end(other));
}

static void streams(void) {
  CUevent event = new_event();
  CUstream stream = capturing(1, GLOBAL), fork = new_stream(1);
  OK(cuEventRecord(event, stream));
  OK(cuStreamWaitEvent(fork, event, 0));
  OK(increment(g_increment, g_counter, fork));
  see("unjoined", end(stream));
  see("fork_is_free_again", capture_state(fork));

  stream = capturing(1, GLOBAL);
  OK(cuEventRecord(event, stream));
  OK(cuStreamWaitEvent(fork, event, 0));
  see("end_in_the_fork", end(fork));
  end(stream);
  see("begin_in_legacy_stream", cuStreamBeginCapture_v2(NULL, GLOBAL) != 0);
  see("end_without_begin", end(stream) != 0);

  int state;
  stream = capturing(0, RELAXED);
  see("asked_about_legacy_stream", cuStreamIsCapturing(NULL, &state));
  see("asking_does_no_harm", capture_state(stream));
  see("legacy_launch", increment(g_increment, g_counter, NULL));
  see("end_after_implicit", end(stream));
  stream = capturing(1, RELAXED);
  see("legacy_beside_non_blocking", increment(g_increment, g_counter, NULL));
  see("end_beside_legacy", end(stream));
}

static void threads_and_modes(void) {
  int mode = RELAXED;
  g_stream = capturing(1, GLOBAL);
  see("end_on_other_thread", on_other_thread(end_there));
  end(g_stream); /* should it not be over */
  g_stream = capturing(1, RELAXED);
  see("relaxed_end_on_other_thread", on_other_thread(end_there));

  CUstream stream = capturing(1, GLOBAL);
  see("allocate_under_global", allocate());
  see("invalidated_by_it", capture_state(stream));
  see("end_after_allocating", end(stream));
  stream = capturing(1, GLOBAL);
  see("other_thread_under_global", on_other_thread(allocate_there));
  see("end_after_other_thread", end(stream));
  stream = capturing(1, THREAD_LOCAL);
  see("other_thread_under_thread_local", on_other_thread(allocate_there));
  see("own_thread_under_thread_local", allocate());
  see("end_after_own_thread", end(stream));
  stream = capturing(1, RELAXED);
  see("allocate_under_relaxed", allocate());
  see("end_of_relaxed", end(stream));

  stream = capturing(1, GLOBAL);
  see("exchange", cuThreadExchangeStreamCaptureMode(&mode));
  see("mode_before", mode);
  see("allocate_by_relaxed_thread", allocate());
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  see("mode_of_the_exchange", mode);
  see("end_after_exchange", end(stream));
  mode = 9;
  see("unknown_mode", cuThreadExchangeStreamCaptureMode(&mode));
}

int main(void) {
  CUmodule module = open_device(&g_context);
  g_increment = kernel(module, "emu_increment");
  g_counter = zeroed(4);
  waiting();
  events();
  streams();
  threads_and_modes();
  return 0;
}
