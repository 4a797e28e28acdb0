/* A forked child is a process of its own to fikitd. */
#ifndef FIKIT_SHIM_FORK_H
#define FIKIT_SHIM_FORK_H

/* From now on children of this process detach from the parent's page; they attach anew at their first CUDA call. */
void fikit_fork_watch(void);

#endif
