// What a host has to do, and when, to make a device live through a recording once more.
#pragma once

#include <cstdint>
#include <vector>

#include "recording.hpp"

namespace replay {

// One host call. Times are the host's own; how long work takes is the device's business (event.duration_ns).
struct Step {
  const Event* event;
  int64_t think_ns;  // before the call
  int64_t cost_ns;   // the call keeps the host so long...
  int64_t delay_ns;  // ...and hands its work to the device after so much of it
  bool waits;        // the call returns when its work is done (a synchronisation: when all work is)...
  int64_t tail_ns;   // ...and keeps the host for so long after that
  // Other threads called while this one waited: it holds its own thread only. What it waits for gets this number, -1:
  // none; the thread's next call is not made before `joins` is done, -1: none, and so long after it.
  int mark;
  int joins;
  int64_t joins_after_ns;
  // Work of one stream that began when work of another had ended: the one has a number, which the other is issued behind;
  // -1: none. A synchronisation with one waits for that work only.
  int number;
  int behind;
  bool last;         // nothing follows in its stream
};

struct Plan {
  std::vector<Step> steps;
  int numbers = 0;  // that were given to steps
  // What the recorded device was like. An emulated one is made like it; a real one is as it is.
  int64_t launch_latency_ns = 0;
  int64_t kernel_gap_ns = 0;
  bool uploads_queue = true;  // copies to the device went one after the other, whatever their streams...
  bool downloads_queue = true;  // ...and those to the host
};

// Whom a call that waits keeps from going on, when other threads called meanwhile: all of the recorded host (no step has a
// mark), or its own thread.
enum class Waiting { whole_host, own_thread };

// The plan refers to the recording's events.
Plan make_plan(const Recording& recording, Waiting waiting = Waiting::whole_host);

}  // namespace replay
