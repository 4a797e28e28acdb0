/* Attributes of streams. */
#include "../conformance.h"

typedef union {
  int number;
  char bytes[64];
} Value;

CUresult cuStreamGetAttribute(CUstream, int, Value *), cuStreamSetAttribute(CUstream, int, const Value *);
CUresult cuStreamCopyAttributes(CUstream, CUstream), cuStreamCreateWithPriority(CUstream *, unsigned, int);

enum { SYNCHRONIZATION = 3, PRIORITY = 8, AUTOMATIC = 1, YIELD = 3 };

int main(void) {
  CUcontext context;
  CUstream stream, other;
  Value value;
  open_device(&context);
  value.number = 99;
  OK(cuStreamCreate(&stream, 1));
  OK(cuStreamCreateWithPriority(&other, 1, -1));
  OK(cuStreamGetAttribute(stream, SYNCHRONIZATION, &value));
  see("synchronization_at_first", value.number);
  OK(cuStreamGetAttribute(other, PRIORITY, &value));
  see("priority", value.number);
  value.number = YIELD;
  see("set", cuStreamSetAttribute(stream, SYNCHRONIZATION, &value));
  OK(cuStreamGetAttribute(stream, SYNCHRONIZATION, &value));
  see("set_reads_back", value.number);
  see("copy", cuStreamCopyAttributes(other, stream));
  OK(cuStreamGetAttribute(other, SYNCHRONIZATION, &value));
  see("copied", value.number);
  return 0;
}
