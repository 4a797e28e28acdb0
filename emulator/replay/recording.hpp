// A recorded GPU timeline, one event per host call, as text in the format of the recorded traces:
//   #N ID NAME                      names of kernels, copies and synchronisations
//   type,host_ts,host_dur,dev_start,dev_dur,stream,gx,gy,gz,bx,by,bz,regs,smem,bytes,name_id,tid
// Times are in us, from any origin. K: a kernel, M: a copy or set, S: a synchronisation of the host, which has no device
// fields. Lines may come in any order, a name before its use.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace replay {

enum class EventKind : uint8_t { kernel, copy_to_device, copy_to_host, copy_on_device, set, synchronize };

struct Event {
  EventKind kind = EventKind::kernel;
  int64_t host_ns = 0;   // start of the host's call, since the first one
  int64_t call_ns = 0;   // how long the call took
  int64_t start_ns = 0;  // on the device; 0 for a synchronisation, like the fields below
  int64_t duration_ns = 0;
  int stream = 0;  // from 0 on, in the order of their first use; so are threads
  int thread = 0;
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  int registers = 0;  // of a thread; 0: not known
  unsigned shared_bytes = 0;
  uint64_t bytes = 0;
  int name = 0;  // index into names

  int64_t call_end_ns() const { return host_ns + call_ns; }
  int64_t end_ns() const { return start_ns + duration_ns; }
};

struct Recording {
  std::vector<std::string> names;
  std::vector<Event> events;  // in host order

  // First start to last end on the device.
  int64_t span_ns() const;
};

// Throws std::runtime_error with one sentence: which line, what is wrong with it.
Recording read_recording(std::istream& in);

}  // namespace replay
