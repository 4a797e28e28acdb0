/* Coming to fikitd, once with patience, and where that failed again and again without any, while the program runs: a program
 * that began while fikitd was away, or had too much to do, is unmanaged for that long only. No thread of ours does it: the
 * program's own launches and allocations look at one word, and at a clock once there is a try to come. */
#ifndef FIKIT_SHIM_ATTACH_H
#define FIKIT_SHIM_ATTACH_H

#include "base/clock.h"
#include "attach/connect.h"
#include "base/file_id.h"

#include <stdbool.h>

/* One GPU of the program. Its owner sees to it that one thread at a time uses it. */
struct fikit_attempt {
  struct fikit_hello hello;
  int socket; /* where an answer is awaited; -1: nowhere */
  struct fikit_file_id file;
  int64_t asked_ns;
  int64_t due_ns;   /* the next look, or the next try */
  int64_t pause_ns; /* before the next try; doubles */
};

/* The first try: waits FIKIT_ANSWER_S at most. False: a reason of one phrase, and `attempt` goes on. */
bool fikit_attach_first(struct fikit_attempt *attempt, const char *path, const struct fikit_hello *hello,
                        struct fikit_connection *connection, char reason[FIKIT_REASON_BYTES]);

/* Go on, if it is due: waits for nothing. */
bool fikit_attach_go_on(struct fikit_attempt *attempt, const char *path, struct fikit_connection *connection);

/* Give up without a word, in the child of a fork. */
void fikit_attach_drop(struct fikit_attempt *attempt);

#endif
