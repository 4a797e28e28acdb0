#include "attach/attach.h"

#include <unistd.h>

enum {
  FIRST_PAUSE_NS = 100000000,
  LOOK_NS = 20000000, /* between looks for an answer */
};
#define LONGEST_PAUSE_NS (30 * INT64_C(1000000000)) /* between tries; also the longest wait for an answer */

/* The program may have closed our descriptor and opened a file of its own under the number. */
static bool ours(const struct fikit_attempt *attempt) {
  return attempt->socket >= 0 && fikit_same_file(fikit_file_id(attempt->socket), attempt->file);
}

void fikit_attach_drop(struct fikit_attempt *attempt) {
  if (ours(attempt))
    close(attempt->socket);
  attempt->socket = -1;
}

static void rest(struct fikit_attempt *attempt, int64_t now_ns) {
  attempt->socket = -1;
  attempt->due_ns = now_ns + attempt->pause_ns;
  attempt->pause_ns = attempt->pause_ns * 2 < LONGEST_PAUSE_NS ? attempt->pause_ns * 2 : LONGEST_PAUSE_NS;
}

static bool hear(struct fikit_attempt *attempt, bool wait, struct fikit_connection *connection,
                 char reason[FIKIT_REASON_BYTES]) {
  enum fikit_answer answer = fikit_hear(attempt->socket, &attempt->hello, wait, connection, reason);
  int64_t now_ns = fikit_now_ns();
  if (answer == FIKIT_NO_ANSWER && now_ns - attempt->asked_ns < LONGEST_PAUSE_NS) {
    attempt->due_ns = now_ns + LOOK_NS;
    return false;
  }
  if (answer == FIKIT_NO_ANSWER)
    fikit_attach_drop(attempt);
  if (answer != FIKIT_MANAGED)
    rest(attempt, now_ns);
  return answer == FIKIT_MANAGED;
}

static bool ask(struct fikit_attempt *attempt, const char *path, int patience_s, char reason[FIKIT_REASON_BYTES]) {
  attempt->asked_ns = fikit_now_ns();
  attempt->socket = fikit_ask(path, &attempt->hello, patience_s, reason);
  if (attempt->socket < 0)
    rest(attempt, fikit_now_ns());
  else
    attempt->file = fikit_file_id(attempt->socket);
  return attempt->socket >= 0;
}

bool fikit_attach_first(struct fikit_attempt *attempt, const char *path, const struct fikit_hello *hello,
                        struct fikit_connection *connection, char reason[FIKIT_REASON_BYTES]) {
  *attempt = (struct fikit_attempt){.hello = *hello, .socket = -1, .pause_ns = FIRST_PAUSE_NS};
  return ask(attempt, path, FIKIT_ANSWER_S, reason) && hear(attempt, true, connection, reason);
}

bool fikit_attach_go_on(struct fikit_attempt *attempt, const char *path, struct fikit_connection *connection) {
  char reason[FIKIT_REASON_BYTES]; /* unused: the first try has said why */
  if (fikit_now_ns() < attempt->due_ns)
    return false;
  if (attempt->socket >= 0 && !ours(attempt)) {
    rest(attempt, fikit_now_ns());
    return false;
  }
  return (attempt->socket >= 0 || ask(attempt, path, 0, reason)) && hear(attempt, false, connection, reason);
}
