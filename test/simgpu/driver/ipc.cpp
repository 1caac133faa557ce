// Memory of another process. A handle names the memory file of the exporter by process and number;
// the importer opens it under /proc, so both need one user and one process table.
#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "context.h"
#include "memory.h"
#include "process.h"
#include "settings.h"

namespace simgpu {
namespace {

constexpr uint64_t kMagic = 0x53494d4750555f32;

struct Handle {
  uint64_t magic;
  int process, file, device, unused;  // the device's number in the machine
  uint64_t size, id;
};
static_assert(sizeof(Handle) <= sizeof(CUipcMemHandle));

int open_file(const Handle& handle) {
  const std::string path =
      "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  char target[64] = "";
  if (readlink(path.c_str(), target, sizeof target - 1) < 0) return -1;
  if (std::string(target).rfind("/memfd:simgpu", 0) != 0) return -1;  // freed, the number reused
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

// The same handle opened twice is mapped once.
bool reopen(uint64_t key, CUdeviceptr* out) {
  uintptr_t base = 0;
  for_each_allocation([&](const Allocation& a) {
    if (a.kind == Kind::kImported && a.id == key) base = a.base;
  });
  *out = base;
  return base != 0 && change_allocation(base, [](Allocation& a) { a.opens++; });
}

}  // namespace

ENTRY(cuIpcGetMemHandle)(CUipcMemHandle* out, CUdeviceptr address) {
  return with_driver([&] {
    if (settings().ipc == Ipc::kRefused) return CUDA_ERROR_NOT_SUPPORTED;
    const std::optional<Allocation> a = find_allocation(address);
    if (!a || a->kind != Kind::kDevice || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Handle handle{kMagic, getpid(), a->file, physical(a->device), 0, a->size, a->id};
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuIpcOpenMemHandle)(CUdeviceptr* out, CUipcMemHandle given, unsigned flags) {
  return with_context([&](Context& context) {
    if (settings().ipc != Ipc::kOffered) return CUDA_ERROR_NOT_SUPPORTED;
    Handle handle;
    memcpy(&handle, &given, sizeof handle);
    if (out == nullptr || handle.magic != kMagic || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
      return CUDA_ERROR_INVALID_VALUE;
    if (handle.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    if (handle.device != physical(context.device) && !settings().peers)
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const uint64_t key = static_cast<uint64_t>(handle.process) << 32 | handle.id;
    if (reopen(key, out)) return CUDA_SUCCESS;
    Allocation a;
    a.file = open_file(handle);
    if (a.file < 0) return misuse(CUDA_ERROR_INVALID_VALUE, "the exporter has no such memory");
    // Devices that this process does not see can be opened too.
    const int device = device_of_physical(handle.device);
    a.size = handle.size;
    a.kind = Kind::kImported;
    a.device = device < 0 ? context.device : device;
    a.context = context.handle;
    a.id = key;
    *out = map_file(a);
    if (*out != 0) return CUDA_SUCCESS;
    close(a.file);
    return CUDA_ERROR_MAP_FAILED;
  });
}

ENTRY(cuIpcCloseMemHandle)(CUdeviceptr address) {
  return with_context([&](Context& context) {
    const std::optional<Allocation> a = find_allocation(address);
    if (!a || a->kind != Kind::kImported || a->base != address)
      return misuse(CUDA_ERROR_INVALID_VALUE, "no imported memory to close");
    synchronize(context);
    if (a->opens == 1)
      release(address);
    else
      change_allocation(address, [](Allocation& changed) { changed.opens--; });
    return CUDA_SUCCESS;
  });
}

}  // namespace simgpu
