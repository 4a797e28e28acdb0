/* Which work an event of the program stands for. */
#ifndef FIKIT_SHIM_EVENT_H
#define FIKIT_SHIM_EVENT_H

/* In the child of a fork. */
void fikit_event_forget_all(void);

#endif
