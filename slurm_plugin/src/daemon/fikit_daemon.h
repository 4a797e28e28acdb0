/* Makes sure that a fikitd serves this node. */
#ifndef FIKIT_DAEMON_H
#define FIKIT_DAEMON_H

#include <stdbool.h>

#include "site/fikit_config.h"

/* Starts fikitd if none answers and waits, at most 3 s, until one does. False when none came: jobs then run unmanaged. */
bool fikit_daemon_ensure(const struct fikit_config *config);

#endif
