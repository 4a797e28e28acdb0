/* Events in streams of the program, behind its allocations and frees in stream order: whoever moves or frees such memory knows by them that its stream has come there. */
#ifndef FIKIT_SHIM_MARK_H
#define FIKIT_SHIM_MARK_H

#include "streams/stream.h"

struct fikit_mark;

/* Behind the work that the stream (NULL not allowed) has now. NULL: there is none to be had; nobody will know. */
struct fikit_mark *fikit_mark(CUstream stream);

/* Has its stream come to it? Then it is given back. */
bool fikit_mark_passed(struct fikit_mark *mark);

/* Nobody asks any more. */
void fikit_mark_dropped(struct fikit_mark *mark);

/* The number of the newest mark; later ones have higher numbers. */
uint64_t fikit_mark_newest(void);

/* Whatever is put into the stream of `entry` once mark number `newest` was made comes behind this one: it is in that stream, and no newer. */
bool fikit_mark_is_before(const struct fikit_mark *mark, const struct fikit_stream *entry, uint64_t newest);

/* The stream, one of any context, waits for it on the device. False: the driver refuses. */
bool fikit_mark_awaited(const struct fikit_mark *mark, CUstream stream);

/* The context was destroyed, and all work in it is over. */
void fikit_marks_context_gone(CUcontext context);

/* In the child of a fork. */
void fikit_marks_forget_all(void);

#endif
