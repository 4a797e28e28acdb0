// What a recorded event is to the device model.
#pragma once

#include "../device_model/state.hpp"
#include "recording.hpp"

namespace replay {

// Only for work, not for synchronisations.
inline emu::OpKind op_kind(EventKind kind) {
  switch (kind) {
    case EventKind::kernel:
      return emu::OpKind::kernel;
    case EventKind::copy_to_device:
      return emu::OpKind::copy_in;
    case EventKind::copy_to_host:
      return emu::OpKind::copy_out;
    default:
      return emu::OpKind::fill;
  }
}

}  // namespace replay
