/* What needs a second device, asked of one: honest refusals. */
#include "../conformance.h"

CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice), cuDeviceGetP2PAttribute(int *, int, CUdevice, CUdevice);
CUresult cuDeviceGetPCIBusId(char *, int, CUdevice), cuDeviceGetByPCIBusId(CUdevice *, const char *);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned), cuCtxDisablePeerAccess(CUcontext);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);

int main(void) {
  CUcontext first, second;
  open_device(&first);
  int value = 99;
  see("can_access_itself", cuDeviceCanAccessPeer(&value, 0, 0));
  see("itself", value);
  see("absent_device", cuDeviceCanAccessPeer(&value, 0, 4711));
  char bus[32];
  CUdevice found = 99;
  OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
  see("device_by_bus", cuDeviceGetByPCIBusId(&found, bus));
  see("which_device", found);
  see("device_by_absent_bus", cuDeviceGetByPCIBusId(&found, "0000:ff:1f.0"));
  see("device_by_nonsense", cuDeviceGetByPCIBusId(&found, "the first one"));
  see("link_to_itself", cuDeviceGetP2PAttribute(&value, 2, 0, 0));
  OK(cuCtxCreate_v2(&second, 0, 0));
  see("enable_itself", cuCtxEnablePeerAccess(second, 0));
  see("enable_on_same_device", cuCtxEnablePeerAccess(first, 0));
  see("disable_what_is_not_enabled", cuCtxDisablePeerAccess(first));
  CUdeviceptr source = zeroed(64), target = zeroed(64);
  uint32_t number = 12;
  OK(cuMemcpyHtoD_v2(source, &number, 4));
  see("copy_within_one_device", cuMemcpyPeer(target, second, source, second, 64));
  see("copied", word(target));
  return 0;
}
