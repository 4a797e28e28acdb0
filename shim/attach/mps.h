/* A program and the MPS server that fikitd runs on its GPU. */
#ifndef FIKIT_SHIM_MPS_H
#define FIKIT_SHIM_MPS_H

/* In the child of a fork: the place at the MPS server is the parent's. */
void fikit_mps_forget(void);

#endif
