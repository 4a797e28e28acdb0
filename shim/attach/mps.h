/* A program and the MPS server that fikitd runs on its GPU. */
#ifndef FIKIT_SHIM_MPS_H
#define FIKIT_SHIM_MPS_H

/* The driver says that this program is no client: the place that fikitd gave it is given back. From one thread at a time. */
void fikit_mps_denied(void);

/* In the child of a fork: the place at the MPS server is the parent's. */
void fikit_mps_forget(void);

#endif
