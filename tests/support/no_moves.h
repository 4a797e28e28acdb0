/* What gate/gate.c calls for memory that moves, for programs that are gate.c and little else. Included by one file of each. */
#pragma once

#include "gate/marker.h"
#include "gate/move.h"

/* Nothing captures, and there is no memory to be moved, whatever the page's goals say. */
_Atomic int fikit_captures;
void fikit_marker_skip(struct fikit_device *device, uint32_t slot, uint32_t request_seq) {
  (void)device, (void)slot, (void)request_seq;
}
void fikit_move_begin(struct fikit_device *device, struct fikit_mover *mover) {
  mover->tried = atomic_load(&device->page->moves.goal);
}
struct fikit_move fikit_move_next(struct fikit_device *device, const struct fikit_mover *mover) {
  (void)device, (void)mover;
  return (struct fikit_move){.copy = FIKIT_COPY_NONE};
}
bool fikit_move_make(struct fikit_device *device, struct fikit_mover *mover) {
  (void)device, (void)mover;
  return false;
}
void fikit_move_end(struct fikit_device *device, const struct fikit_mover *mover, bool late) {
  (void)device, (void)mover, (void)late;
}
