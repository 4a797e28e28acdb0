/* What the files of the stand-in libcuda.so.1 share: shim_fake_cuda.c (control, contexts, launches, look-up) and the others. */
#pragma once

#include <stdint.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
enum { INVALID_VALUE = 1, ALREADY_REGISTERED = 712, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, INVALID_CONTEXT = 201, CAPTURE_UNSAFE = 900, CAPTURE_INVALIDATED = 901 };
#define API __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))

int called(const char *name); /* counts the call; what a test told it to return */
extern int holding;           /* events and streams are not complete */
extern int capturing;
void end_streams_of(void *ctx, int over); /* its events must not be touched from now on; `over`: and its captures are */
extern _Thread_local void *current; /* context */

#define COUNTED             \
  int fail = called(__func__); \
  if (fail)                 \
  return fail
