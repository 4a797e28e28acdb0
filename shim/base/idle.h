/* What can be known of the work of a context at a moment (streams/idle.h). */
#ifndef FIKIT_SHIM_BASE_IDLE_H
#define FIKIT_SHIM_BASE_IDLE_H

enum fikit_idle {
  FIKIT_BUSY,         /* it has work */
  FIKIT_GOES_ON,      /* it has work, and what it had when somebody asked last is over */
  FIKIT_IDLE,         /* it has none */
  FIKIT_IDLE_UNKNOWN, /* the driver does not say */
};

#endif
