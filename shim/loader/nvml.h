/* NVML's answers about memory, in programs that look its functions up by dlsym (as Python's bindings do). */
#ifndef FIKIT_SHIM_NVML_H
#define FIKIT_SHIM_NVML_H

#include <stdbool.h>

/* True for the functions that are answered here. */
bool fikit_nvml_handles(const char *name);

/* What dlsym answers for one of them: ours where `handle` finds NVML's, else what is there. */
void *fikit_nvml_lookup(void *handle, const char *name);

#endif
