/* The lane: the stream of the shim's own on which a plan's moves go one behind the other, and how launches and moves wait for each other on the device. There is
 * one lane per process, in the context in which the plan was taken. Calls are made under the lock of the movable memory, except where it says otherwise. Moves are
 * numbered from 1 on. */
#ifndef FIKIT_SHIM_LANE_H
#define FIKIT_SHIM_LANE_H

#include "memory/movable.h"
#include "streams/mark.h"
#include "streams/stream.h"

/* Makes the lane in the current context, unless there is one. False: the driver refuses. */
bool fikit_lane_open(CUcontext context);

/* A lane was made in this process: moves may be under way. Without the lock; one load. */
bool fikit_lane_was_open(void);

/* May one more move be given to the driver? Not while the device is far behind with earlier ones. `failed`: the driver's answer is an error. */
bool fikit_lane_has_room(bool *failed);

/* May the next moves wait for what is on this stream now? Not where an event there could hold up work that comes behind nothing on this stream, nor in another
 * context. */
bool fikit_lane_may_follow(struct fikit_stream *entry, CUcontext context, bool *failed);

/* Everything that the moves wait for is on this stream, and what is put into the stream now holds up no other stream's work. */
bool fikit_lane_follows(const struct fikit_stream *entry);

/* Has the next moves wait for what is on `stream` now, in two steps. Record: puts an event there; without the lock, because the driver may block a thread whose
 * stream is full. Follow: the lane waits for the event. False: the driver refuses. */
bool fikit_lane_record(CUstream stream);
bool fikit_lane_follow(void);

/* The kind of a move, for the link's rates. FIRST_OUT: the driver has to find host memory for it, and takes three times as long on an H200. NO_RATE: a part of
 * the piece is there already, so its time says nothing of the link. */
enum fikit_lane_rate { FIKIT_RATE_IN, FIKIT_RATE_OUT, FIKIT_RATE_FIRST_OUT, FIKIT_NO_RATE };

/* Gives a move to the driver. for_launch: number of the launch that needs the memory (launch_seq; 0: none does). MOVES: the memory moves. ALONE: it moves, but the
 * driver has refused the event behind it, so that no launch can wait for it. REFUSED: the driver does not move it. Newest: number of the newest move. */
enum fikit_lane_answer { FIKIT_LANE_REFUSED, FIKIT_LANE_ALONE, FIKIT_LANE_MOVES };
enum fikit_lane_answer fikit_lane_move(const struct fikit_piece *piece, CUdevice device, uint64_t for_launch, enum fikit_lane_rate kind);
uint64_t fikit_lane_newest(void);

/* Bytes per second of moves in that direction, by the device's own clock; 0: too few were timed. Both: of as many bytes in as out. */
uint64_t fikit_lane_bytes_per_s(bool in);
uint64_t fikit_lane_both_per_s(void);

/* Launch number `seq` is about to go onto the stream of `entry`. Awaited: the move that it has to wait for; NULL: none. No later launch waits for moves for launches up
 * to this one. Wait: without the lock, has `stream` wait. Give back: afterwards; `entry` NULL: nothing has waited. */
struct fikit_awaited;
struct fikit_awaited *fikit_lane_awaited(const struct fikit_stream *entry, uint64_t seq);
bool fikit_lane_wait(CUstream stream, const struct fikit_awaited *awaited);
void fikit_lane_give_back(struct fikit_awaited *awaited, const struct fikit_stream *entry);

/* Memory whose newest move has this number is about to be freed in the order of the stream of `entry` (NULL: the program's work with it is over). NOW: the move is
 * over, or the stream comes behind it. WAITS: the stream has to wait for `awaited` first, as a launch does. IN_LANE: the stream must not wait for the lane; so the
 * memory is freed in the order of the lane, once that follows the stream. Follow mark: has the lane wait for the mark; false: the driver refuses. */
enum fikit_lane_free { FIKIT_FREE_NOW, FIKIT_FREE_WAITS, FIKIT_FREE_IN_LANE };
enum fikit_lane_free fikit_lane_free(uint64_t move, const struct fikit_stream *entry, struct fikit_awaited **awaited);
bool fikit_lane_follow_mark(const struct fikit_mark *mark);

/* Number of the first launch that may have to wait for a move; FIKIT_LOOK_NEVER: none. */
uint64_t fikit_lane_next(void);

/* No launch waits for the moves that are under way. */
void fikit_lane_drop_waits(void);

CUstream fikit_lane_stream(void);

/* The context was destroyed; true: it was the lane's. */
bool fikit_lane_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_lane_forget_all(void);

#endif
