/* The stream on which a plan's moves go, one behind the other, and how launches and moves wait for each other on the device. One lane per
 * process, in the context in which the plan was taken. All calls but those that say otherwise are made under the lock of the movable
 * memory. Moves have numbers, from 1 on. */
#ifndef FIKIT_SHIM_LANE_H
#define FIKIT_SHIM_LANE_H

#include "memory/movable.h"
#include "streams/mark.h"
#include "streams/stream.h"

/* Makes the lane in the current context, unless there is one. False: the driver refuses. */
bool fikit_lane_open(CUcontext context);

/* A lane was made in this process: moves may be under way. Without the lock; one load. */
bool fikit_lane_was_open(void);

/* Room for one more move? Not while the device is far behind with those that it has. `failed`: the driver's answer is an error. */
bool fikit_lane_has_room(bool *failed);

/* May the moves that follow wait for what is on this stream now? Not where that could hold up work that does not wait for it by itself, nor
 * in another context. */
bool fikit_lane_may_follow(struct fikit_stream *entry, CUcontext context, bool *failed);

/* All that the moves wait for is of this stream, and what is put into it now holds up nothing that does not wait for it by itself. */
bool fikit_lane_follows(const struct fikit_stream *entry);

/* The moves that follow wait for what is on `stream` now: first record an event there, without the lock, since the driver may make a thread wait
 * whose stream is full; then have the lane wait for it. False: the driver refuses. */
bool fikit_lane_record(CUstream stream);
bool fikit_lane_follow(void);

/* The kind of a move, for the link's rates. FIRST_OUT: the driver has to find host memory for it, and takes three times as long on an H200. NO_RATE: a part of
 * the piece is there already, so its time says nothing of the link. */
enum fikit_lane_rate { FIKIT_RATE_IN, FIKIT_RATE_OUT, FIKIT_RATE_FIRST_OUT, FIKIT_NO_RATE };

/* Gives a move to the driver; it is the newest then. for_launch: number of the launch that needs the memory (launch_seq; 0: none does). REFUSED: the driver does not move it. ALONE: it does, and has refused what was to come with it, so that nobody can wait for it. */
enum fikit_lane_answer { FIKIT_LANE_REFUSED, FIKIT_LANE_ALONE, FIKIT_LANE_MOVES };
enum fikit_lane_answer fikit_lane_move(const struct fikit_piece *piece, CUdevice device, uint64_t for_launch, enum fikit_lane_rate kind);
uint64_t fikit_lane_newest(void);

/* Bytes per second of moves so far in that direction, by the device's own clock; 0: too few were timed. Both: of as many bytes in as out. */
uint64_t fikit_lane_bytes_per_s(bool in);
uint64_t fikit_lane_both_per_s(void);

/* Launch number `seq` is about to go onto the stream of `entry`: what it is to wait for, NULL: nothing. Without the lock wait for it, then
 * give it back; `entry` NULL: nothing has waited. Moves for launches up to this one are awaited no more. */
struct fikit_awaited;
struct fikit_awaited *fikit_lane_awaited(const struct fikit_stream *entry, uint64_t seq);
bool fikit_lane_wait(CUstream stream, const struct fikit_awaited *awaited);
void fikit_lane_give_back(struct fikit_awaited *awaited, const struct fikit_stream *entry);

/* Memory is about to be freed in the order of the stream of `entry` (NULL: all work of the program's with it is over), and a move of it may be under way: the newest
 * has that number. NOW: it is over, or the stream comes behind it. WAITS: once the stream has waited for it, as a launch does. IN_LANE: nobody may wait
 * for the lane there; so the lane frees it, behind its own moves and what it follows. */
enum fikit_lane_free { FIKIT_FREE_NOW, FIKIT_FREE_WAITS, FIKIT_FREE_IN_LANE };
enum fikit_lane_free fikit_lane_free(uint64_t move, const struct fikit_stream *entry, struct fikit_awaited **awaited);
bool fikit_lane_follow_mark(const struct fikit_mark *mark);

/* The first launch for which a move is under way; FIKIT_LOOK_NEVER: none. */
uint64_t fikit_lane_next(void);

/* From now on no launch waits for the moves that are under way. */
void fikit_lane_let_go(void);

CUstream fikit_lane_stream(void);

/* The context was destroyed; true: it was the lane's. */
bool fikit_lane_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_lane_forget_all(void);

#endif
