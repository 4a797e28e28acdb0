/* A forked child is a process of its own to fikitd. */
#ifndef FIKIT_SHIM_FORK_H
#define FIKIT_SHIM_FORK_H

/* From now on the child of a fork detaches from the parent's page, and attaches by itself at its first CUDA call. */
void fikit_fork_watch(void);

#endif
