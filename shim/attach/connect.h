/* The socket side of fikit_protocol.h: say hello, receive the page. */
#ifndef FIKIT_SHIM_CONNECT_H
#define FIKIT_SHIM_CONNECT_H

#include "fikit_protocol.h"

#include <stdbool.h>

struct fikit_connection {
  int socket, doorbell;
  struct fikit_page *page;
  struct fikit_memory *memory;
  struct fikit_memory_share *share; /* ours, in it */
};

enum fikit_answer { FIKIT_NO_ANSWER, FIKIT_NOT_MANAGED, FIKIT_MANAGED };

/* Connect to the daemon at `path`, or rather at the user's own socket beside it, and say hello. Waits so many seconds at most
 * for room, and later, in fikit_hear, for the answer; 0: does not wait. On failure: -1 and a reason of one phrase. */
int fikit_ask(const char *path, const struct fikit_hello *hello, int patience_s, char reason[FIKIT_REASON_BYTES]);

/* The answer at the descriptor that fikit_ask gave. MANAGED: `connection` is filled and has the descriptor; NOT_MANAGED: it is
 * closed, and a reason of one phrase says why; NO_ANSWER: there is none yet (`wait`: within the patience), ask again or close. */
enum fikit_answer fikit_hear(int fd, const struct fikit_hello *hello, bool wait, struct fikit_connection *connection,
                             char reason[FIKIT_REASON_BYTES]);

/* The answer to a hello that asks to JOIN. MANAGED: become a client of MPS, and keep the descriptor for as long; NOT_MANAGED: it is
 * closed, and a reason of one phrase says why not. */
enum fikit_answer fikit_hear_join(int fd, char reason[FIKIT_REASON_BYTES]);

/* Close and unmap what fikit_connect made. */
void fikit_disconnect(const struct fikit_connection *connection);

#endif
