/* Virtual memory management: addresses, memory, what is mapped where, and who may use it. */
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_api.h"

typedef unsigned long long Handle;

CUresult cuMemGetAllocationGranularity(size_t *, const AllocationProp *, int), cuMemRelease(Handle), cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemCreate(Handle *, size_t, const AllocationProp *, unsigned long long), cuMemMap(CUdeviceptr, size_t, size_t, Handle, unsigned long long);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long), cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const AccessDesc *, size_t), cuMemGetAccess(unsigned long long *, const Location *, CUdeviceptr);
CUresult cuMemGetAllocationPropertiesFromHandle(AllocationProp *, Handle), cuMemRetainAllocationHandle(Handle *, void *);
CUresult cuMemExportToShareableHandle(void *, Handle, int, unsigned long long), cuMemImportFromShareableHandle(Handle *, void *, int);

static const AllocationProp kProperties = {PINNED, POSIX_FD, {ON_DEVICE, 0}, NULL, {0, 0, 0, {0}}};
static const AccessDesc kReadWrite = {{ON_DEVICE, 0}, READ_WRITE};

/* One descriptor over a socket. */
static void send_descriptor(int through, int descriptor) {
  char byte = 'd', control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  CHECK(sendmsg(through, &message, 0) == 1);
}

static int receive_descriptor(int through) {
  char byte, control[CMSG_SPACE(sizeof(int))];
  struct iovec data = {&byte, 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  int descriptor;
  CHECK(recvmsg(through, &message, 0) == 1);
  memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

/* The other process: adds 1 to the first word of what it is sent. Until then it takes nothing of the device. */
static int importer(int socket) {
  const int descriptor = receive_descriptor(socket);
  CUcontext context;
  CUmodule module = open_device(&context);
  size_t unit;
  Handle memory;
  CUdeviceptr address;
  OK(cuMemGetAllocationGranularity(&unit, &kProperties, 0));
  OK(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)descriptor, POSIX_FD));
  close(descriptor);
  OK(cuMemAddressReserve(&address, unit, 0, 0, 0));
  OK(cuMemMap(address, unit, 0, memory, 0));
  OK(cuMemRelease(memory));
  OK(cuMemSetAccess(address, unit, &kReadWrite, 1));
  OK(increment(kernel(module, "emu_increment"), address, NULL));
  OK(cuCtxSynchronize());
  OK(cuMemUnmap(address, unit));
  OK(cuMemAddressFree(address, unit));
  return 0;
}

static size_t used_bytes(void) {
  size_t available, total;
  OK(cuMemGetInfo_v2(&available, &total));
  return total - available;
}

int main(void) {
  int sockets[2], status;
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const pid_t child = fork(); /* before the driver starts: a child of a process with CUDA has none */
  if (child == 0) return importer(sockets[1]);

  CUcontext context;
  CUmodule module = open_device(&context);
  size_t unit = 0;
  see("granularity", cuMemGetAllocationGranularity(&unit, &kProperties, 0));
  see("granularity_is_whole_pages", unit >= 4096 && unit % 4096 == 0);

  CUdeviceptr base, other;
  see("reserve", cuMemAddressReserve(&base, 4 * unit, 0, 0, 0));
  see("reserve_nothing", cuMemAddressReserve(&other, 0, 0, 0, 0));
  see("reserve_with_flags", cuMemAddressReserve(&other, unit, 0, 0, 1));
  see("reserve_odd_alignment", cuMemAddressReserve(&other, unit, 3 * unit, 0, 0));
  OK(cuMemAddressReserve(&other, unit, 16 * unit, 0, 0));
  see("alignment", (long long)(other % (16 * unit)));
  see("free_with_wrong_size", cuMemAddressFree(other, unit / 2));
  see("free_reservation", cuMemAddressFree(other, unit));

  Handle first, second, third, again, absent;
  const size_t before = used_bytes();
  see("create", cuMemCreate(&first, unit, &kProperties, 0));
  OK(cuMemCreate(&second, 2 * unit, &kProperties, 0));
  see("takes_device_memory", used_bytes() >= before + 3 * unit);
  see("create_odd_size", cuMemCreate(&absent, unit + 1, &kProperties, 0));
  see("create_with_flags", cuMemCreate(&absent, unit, &kProperties, 1));
  see("create_too_much", cuMemCreate(&absent, (size_t)1 << 43, &kProperties, 0));
  AllocationProp nowhere = kProperties, told;
  nowhere.location.id = 4711;
  see("create_on_absent_device", cuMemCreate(&absent, unit, &nowhere, 0));
  OK(cuMemGetAllocationPropertiesFromHandle(&told, first));
  see("properties_type", told.type);
  see("properties_location", told.location.type);

  see("map", cuMemMap(base, unit, 0, first, 0));
  see("map_with_offset", cuMemMap(base + unit, unit, unit, second, 0));
  see("map_a_part", cuMemMap(base + unit, unit, 0, second, 0));
  see("map_more_than_there_is", cuMemMap(base + unit, 3 * unit, 0, second, 0));
  OK(cuMemCreate(&third, unit, &kProperties, 0));
  see("map_where_mapped", cuMemMap(base, unit, 0, third, 0));
  OK(cuMemRelease(third));
  see("map_behind", cuMemMap(base + unit, 2 * unit, 0, second, 0));

  uint32_t value = 41;
  unsigned long long access = 99;
  OK(cuMemGetAccess(&access, &kReadWrite.location, base));
  see("access_at_first", (long long)access);
  see("give_access", cuMemSetAccess(base, 3 * unit, &kReadWrite, 1));
  OK(cuMemGetAccess(&access, &kReadWrite.location, base + unit));
  see("access_then", (long long)access);
  see("access_to_unmapped", cuMemSetAccess(base, 4 * unit, &kReadWrite, 1));
  see("copy", cuMemcpyHtoD_v2(base, &value, 4));
  see("copy_across_both", cuMemcpyHtoD_v2(base + unit - 2, &value, 4));
  see("fill", cuMemsetD8_v2(base + unit + 64, 0, unit));

  see("handle_of_address", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 64)));
  see("same_handle", again == first);
  OK(cuMemRelease(again));
  see("handle_of_unmapped", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 3 * unit)));

  int descriptor = -1;
  see("export", cuMemExportToShareableHandle(&descriptor, first, POSIX_FD, 0));
  send_descriptor(sockets[0], descriptor);
  close(descriptor);
  CHECK(waitpid(child, &status, 0) == child);
  see("other_process", status);
  see("what_it_wrote", word(base));

  see("release_while_mapped", cuMemRelease(first));
  OK(increment(kernel(module, "emu_increment"), base, NULL));
  see("still_usable", word(base));
  see("unmap_a_part", cuMemUnmap(base + unit, unit));
  see("free_while_mapped", cuMemAddressFree(base, 4 * unit));
  see("unmap", cuMemUnmap(base, unit));
  see("unmap_again", cuMemUnmap(base, unit));
  OK(cuMemUnmap(base + unit, 2 * unit));
  see("memory_without_address_is_kept", used_bytes() >= before + 2 * unit);
  OK(cuMemRelease(second));
  see("all_given_back", used_bytes() <= before);
  see("free", cuMemAddressFree(base, 4 * unit));
  return 0;
}
