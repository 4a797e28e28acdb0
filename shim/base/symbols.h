/* The driver's names, numbered; and the slot of each, through which every real call goes. */
#ifndef FIKIT_SHIM_SYMBOLS_H
#define FIKIT_SHIM_SYMBOLS_H

#include "symbol_numbers.h"

#include <stdbool.h>

struct fikit_export {
  char *own;    /* the shim's exported function of this name */
  int handled;  /* 1: it does something (entry_points.def); 0: it only jumps to the driver */
};

/* What cuGetProcAddress(name, version, flags) must answer; sorted by (name, per_thread, version). */
struct fikit_version_row {
  const char *name;
  int version;
  int per_thread;
  enum fikit_symbol symbol;
};

extern const char *const fikit_symbol_names[FIKIT_SYMBOLS]; /* in strcmp order */
extern const struct fikit_export fikit_exports[FIKIT_SYMBOLS];
extern const struct fikit_version_row fikit_versions[];
extern const unsigned fikit_version_rows;

/* Real functions. A slot starts as a stub that looks the name up at the first call (stub.h, entry_*.S). */
extern void *fikit_slots[FIKIT_SYMBOLS] __attribute__((visibility("hidden")));

/* REAL(cuInit)(0) calls the driver's cuInit, whether or not it was looked up before. A name that the driver lacks
 * answers CUDA_ERROR_NOT_FOUND; every name answers CUDA_ERROR_NO_DEVICE where there is no driver. */
#define REAL(name) ((__typeof__(&(name)))__atomic_load_n(&fikit_slots[FIKIT_SYM_##name], __ATOMIC_ACQUIRE))

/* Put `function` into a slot: who finds it there finds the driver loaded, too. */
static inline void fikit_slot_fill(enum fikit_symbol symbol, void *function) {
  __atomic_store_n(&fikit_slots[symbol], function, __ATOMIC_RELEASE);
}

/* Number of a name, or -1. */
int fikit_symbol_of(const char *name);

/* The driver's function of a name, looked up now if need be; NULL when the driver lacks it or there is no driver. */
void *fikit_real(enum fikit_symbol symbol);

/* True when `name` is in the driver: for calls that older drivers lack. */
#define HAS(name) (fikit_real(FIKIT_SYM_##name) != NULL)

/* Use `function` (an answer of the driver's cuGetProcAddress) for a name that the driver does not export. */
void fikit_offer(enum fikit_symbol symbol, void *function);

#endif
