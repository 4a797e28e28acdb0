/* What a kernel's arguments name: the words among them that may be addresses. */
#ifndef FIKIT_SHIM_ARGUMENTS_H
#define FIKIT_SHIM_ARGUMENTS_H

#include "base/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* What a kernel is launched with, as cuLaunchKernel takes it. */
struct fikit_arguments {
  uintptr_t function; /* CUfunction or CUkernel */
  void **params, **extra;
};

enum { FIKIT_ARGUMENT_WORDS = 512 }; /* that are read, at most */

/* The words of all parameters. False: the driver says nothing about this function (before CUDA 12.4), or no call has given it out. Only for
 * arguments that the driver has taken: all that its own table of parameters says is there has been read by then. */
bool fikit_argument_words(const struct fikit_arguments *arguments, uint64_t *words, unsigned *count);

#endif
