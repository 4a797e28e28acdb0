/* The socket side of fikit_protocol.h: say hello, receive the page. */
#ifndef FIKIT_SHIM_CONNECT_H
#define FIKIT_SHIM_CONNECT_H

#include "fikit_protocol.h"

#include <stdbool.h>

struct fikit_connection {
  int socket, doorbell;
  struct fikit_page *page;
  struct fikit_plan *plan; /* behind the page; NULL: an older fikitd */
  struct fikit_memory *memory;
  struct fikit_memory_share *share; /* this process's part of `memory` */
};

enum fikit_answer { FIKIT_NO_ANSWER, FIKIT_NOT_MANAGED, FIKIT_MANAGED };

/* Connect to fikitd at `path`, by the user's own socket beside it if there is one, and send the hello. Waits patience_s at most for room in
 * the socket's queue, and as long for the answer in fikit_hear; 0: does not wait. On failure: -1 and the reason as one phrase. */
int fikit_ask(const char *path, const struct fikit_hello *hello, int patience_s, char reason[FIKIT_REASON_BYTES]);

/* The answer on the descriptor that fikit_ask gave. MANAGED: `connection` is filled and owns the descriptor. NOT_MANAGED: the descriptor is
 * closed, and `reason` says why in one phrase. NO_ANSWER: none yet (with `wait`: within the patience); call again, or close it. */
enum fikit_answer fikit_hear(int fd, const struct fikit_hello *hello, bool wait, struct fikit_connection *connection,
                             char reason[FIKIT_REASON_BYTES]);

/* The answer to a hello that asks to JOIN. MANAGED: the program may become a client of MPS, and keeps the descriptor for as long as it is
 * one. NOT_MANAGED: the descriptor is closed, and `reason` says why not in one phrase. */
enum fikit_answer fikit_hear_join(int fd, char reason[FIKIT_REASON_BYTES]);

/* Close and unmap all of it. */
void fikit_disconnect(const struct fikit_connection *connection);

#endif
