/* Connecting to fikitd. The first try waits for the answer; if it fails, later tries that wait for nothing follow while the program
 * runs. So a program that began while fikitd was away or overloaded is unmanaged only until then. The shim has no thread for it: the
 * program's own launches and allocations read one word, and the clock while a try is due. */
#ifndef FIKIT_SHIM_ATTACH_H
#define FIKIT_SHIM_ATTACH_H

#include "base/clock.h"
#include "attach/connect.h"
#include "base/file_id.h"

#include <stdbool.h>

/* The tries for one GPU. Not thread-safe: the caller holds a lock. */
struct fikit_attempt {
  struct fikit_hello hello;
  int socket; /* on which the answer will come; -1: none is awaited */
  struct fikit_file_id file;
  int64_t asked_ns;
  int64_t due_ns;   /* of the next look for an answer, or of the next try */
  int64_t pause_ns; /* before the next try; doubles with each */
};

/* The first try: waits FIKIT_ANSWER_S at most. False: gives the reason as one phrase, and further tries may follow. */
bool fikit_attach_first(struct fikit_attempt *attempt, const char *path, const struct fikit_hello *hello,
                        struct fikit_connection *connection, char reason[FIKIT_REASON_BYTES]);

/* Look for the answer or try again, if that is due. Does not wait. */
bool fikit_attach_go_on(struct fikit_attempt *attempt, const char *path, struct fikit_connection *connection);

/* Give up silently, in the child of a fork. */
void fikit_attach_drop(struct fikit_attempt *attempt);

#endif
