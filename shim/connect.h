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

/* Connect to the daemon at `path` and fill `connection`. On failure: false and a reason of one phrase, nothing left
 * open. Takes at most two seconds. */
bool fikit_connect(const char *path, const struct fikit_hello *hello, struct fikit_connection *connection,
                   char reason[FIKIT_REASON_BYTES]);

/* Close and unmap what fikit_connect made. */
void fikit_disconnect(const struct fikit_connection *connection);

#endif
