#include "identity/collective.h"

#include <fnmatch.h>
#include <stdatomic.h>
#include <string.h>

/* Parts of names in lower case and without underscores, as `plain` makes them: the same kernel is one_shot_all_reduce in one library and
 * oneShotAllReduce in another. A mangled name contains its namespaces and its source file. */
static const char *const parts[] = {
    "nccldevkernel", "ncclkernel",      /* NCCL and RCCL; older versions' names are mangled */
    "crossdevicereduce",                /* vLLM, SGLang, aiter */
    "oneshotallreduce",                 /* TensorRT-LLM, FlashInfer, PyTorch's symmetric memory */
    "twoshotallreduce",                 /* the same */
    "multimemallreduce", "multimemallgather", "multimemreducescatter", /* PyTorch's symmetric memory */
    "cudasymmetricmemory",              /* its barriers and signals, by their source file */
    "allreducefusion",                  /* TensorRT-LLM and FlashInfer, fused with what follows */
    "nvshmem",                          /* NVSHMEM, and kernels that are handed its types */
    "mscclpp",                          /* MSCCL++ */
    "userbuffersfp16sum", "userbufferspush", /* Transformer Engine, TensorRT-LLM */
    "deepep9intranode", "deepep9internode", "deepep12internodell", "deepep7elastic", /* DeepEP's namespaces, mangled */
    "deepep::intranode", "deepep::internode", "deepep::elastic",                     /* and as text */
};

static char site_names[FIKIT_COLLECTIVES_BYTES]; /* patterns, each with its NUL; the last one is empty */
static _Atomic int site_state;                   /* 0: none yet; 1: being copied; 2: there */

/* A name that does not fit is cut; fikitd gets less of it. */
static void plain(const char *name, char out[FIKIT_NAME_BYTES]) {
  size_t length = 0;
  for (; *name && length < FIKIT_NAME_BYTES - 1; name++)
    if (*name != '_')
      out[length++] = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
  out[length] = '\0';
}

static bool is_sites(const char *name) {
  if (atomic_load_explicit(&site_state, memory_order_acquire) != 2)
    return false;
  for (const char *pattern = site_names; *pattern; pattern += strlen(pattern) + 1)
    if (fnmatch(pattern, name, 0) == 0)
      return true;
  return false;
}

bool fikit_is_collective(const char *name) {
  char text[FIKIT_NAME_BYTES];
  if (strncmp(name, "nccl", 4) == 0 || is_sites(name))
    return true;
  plain(name, text);
  for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (strstr(text, parts[i]))
      return true;
  return false;
}

void fikit_collectives_of_site(const struct fikit_page *page) {
  int none = 0;
  if (page->version < FIKIT_SINCE_FILLS || !page->collective_names[0] || !atomic_compare_exchange_strong(&site_state, &none, 1))
    return;
  memcpy(site_names, page->collective_names, sizeof site_names - 2); /* its last two bytes stay 0: the list ends */
  atomic_store_explicit(&site_state, 2, memory_order_release);
}
