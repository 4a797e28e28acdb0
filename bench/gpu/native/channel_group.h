/*
 * The driver's own calls on the channel groups of this process: length of a time slice, pre-emption, leaving the run list.
 * A measurement only: no part of fikit makes these calls.
 *
 * The resource manager (RM) behind /dev/nvidiactl takes them as ioctls. libcuda allocates a channel group for each engine when it
 * creates a context. `ioctl` of this program, which comes before libc's, sees these allocations and so learns the handles. NVIDIA's
 * open kernel modules declare the structures and commands (nvos.h, ctrla06c.h); the declarations here are our own.
 */
#ifndef FIKIT_BENCH_GPU_CHANNEL_GROUP_H
#define FIKIT_BENCH_GPU_CHANNEL_GROUP_H

#include <stdbool.h>

/* Reads a list of controls: words "MS:timeslice:US", "MS:preempt", "MS:schedule:0|1" with spaces between, 40 at most. MS: of the
 * program's run, 0 for before its first kernel. False where a word is none of these. */
bool plan_controls(const char *words);

/* Issues the controls of moment 0, and begins a thread that issues the others in time. */
void begin_controls(void);

/* Waits for the thread, and prints as parts of a JSON object: "groups" (engine), "by_libcuda" (the driver's library's own controls of
 * channel groups) and "controls" (each with the error of the ioctl, RM's status and the duration of the call in ns). */
void print_controls(void);

#endif
