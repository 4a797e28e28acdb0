/* What the programs about memory need besides conformance.h. */
#ifndef MEMORY_API_H
#define MEMORY_API_H

#include "../conformance.h"

enum { ON_DEVICE = 1, ON_HOST = 2 };              /* CUmemLocationType */
enum { PINNED = 1, POSIX_FD = 1 };                /* CUmemAllocationType, CUmemAllocationHandleType */
enum { READ_ONLY = 1, READ_WRITE = 3 };           /* CUmemAccess_flags */
enum { ATTACH_GLOBAL = 1, ATTACH_HOST, ATTACH_SINGLE = 4 };

typedef struct {
  int type, id;
} Location;

typedef struct {
  int type, handle_types;
  Location location;
  void *windows;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
} AllocationProp;

typedef struct {
  Location location;
  int flags;
} AccessDesc;

#endif
