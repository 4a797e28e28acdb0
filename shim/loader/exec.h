/* LD_PRELOAD as a program sees it, and as the programs see it that it starts. */
#ifndef FIKIT_SHIM_EXEC_H
#define FIKIT_SHIM_EXEC_H

/* Before main(): from here on the program's own LD_PRELOAD has no $ in it. */
void fikit_exec_at_start(void);

#endif
