// Allocation, pinning and their ends.
#include <cuda.h>

#include "context.h"
#include "memory.h"
#include "settings.h"

namespace simgpu {
namespace {

// Freeing waits for the work that may use the memory: the driver waits for the whole device.
void wait_for_users(const Allocation& a) {
  if (Context* const owner = find_context(a.context)) synchronize(*owner);
  if (Context* const current = current_context()) synchronize(*current);
}

CUresult free_one(uintptr_t address, bool (*right_kind)(Kind)) {
  const std::optional<Allocation> a = find_allocation(address);
  if (!a || a->base != address || !right_kind(a->kind) || a->freeing)
    return misuse(CUDA_ERROR_INVALID_VALUE, "nothing to free at %p",
                  reinterpret_cast<void*>(address));
  wait_for_users(*a);
  release(address);
  return CUDA_SUCCESS;
}

}  // namespace

ENTRY(cuMemGetInfo)(size_t* free, size_t* total) {
  return with_context([&](Context& context) {
    if (total != nullptr) *total = settings().memory;
    if (free != nullptr) *free = settings().memory - used_memory(context.device);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemAlloc)(CUdeviceptr* out, size_t size) {
  return with_context(
      [&](Context& context) { return allocate(context, size, Kind::kDevice, nullptr, out); });
}

ENTRY(cuMemAllocManaged)(CUdeviceptr* out, size_t size, unsigned flags) {
  return with_context([&](Context& context) {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
      return CUDA_ERROR_INVALID_VALUE;
    return allocate(context, size, Kind::kManaged, nullptr, out);
  });
}

ENTRY(cuMemAllocPitch)
(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
  return with_context([&](Context& context) {
    if (pitch == nullptr || (element != 4 && element != 8 && element != 16))
      return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + 511) / 512 * 512;
    return allocate(context, *pitch * height, Kind::kDevice, nullptr, out);
  });
}

ENTRY(cuMemFree)(CUdeviceptr address) {
  return with_context([&](Context&) {
    if (address == 0) return CUDA_SUCCESS;
    return free_one(address, [](Kind kind) {
      return kind == Kind::kDevice || kind == Kind::kManaged || kind == Kind::kPool;
    });
  });
}

ENTRY(cuMemHostAlloc)(void** out, size_t size, unsigned) {
  return with_context([&](Context& context) { return allocate_pinned(context, size, out); });
}

ENTRY(cuMemAllocHost)(void** out, size_t size) {
  return simgpu_cuMemHostAlloc(out, size, 0);
}

ENTRY(cuMemFreeHost)(void* address) {
  return with_context([&](Context&) {
    return free_one(reinterpret_cast<uintptr_t>(address),
                    [](Kind kind) { return kind == Kind::kPinned; });
  });
}

ENTRY(cuMemHostRegister)(void* address, size_t size, unsigned) {
  return with_context([&](Context& context) {
    if (address == nullptr || size == 0 || in_window(reinterpret_cast<uintptr_t>(address)))
      return CUDA_ERROR_INVALID_VALUE;
    Allocation a;
    a.base = reinterpret_cast<uintptr_t>(address);
    a.size = a.mapped = size;
    a.kind = Kind::kRegistered;
    a.device = context.device;
    a.context = context.handle;
    a.maker = current_caller();
    return register_allocation(a) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  });
}

ENTRY(cuMemHostUnregister)(void* address) {
  return with_context([&](Context&) {
    const auto base = reinterpret_cast<uintptr_t>(address);
    const std::optional<Allocation> a = find_allocation(base);
    if (!a || a->base != base || a->kind != Kind::kRegistered)
      return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    wait_for_users(*a);
    release(base);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemHostGetDevicePointer)(CUdeviceptr* out, void* address, unsigned flags) {
  return with_context([&](Context&) {
    const auto base = reinterpret_cast<uintptr_t>(address);
    const std::optional<Allocation> a = find_allocation(base);
    if (!a || a->on_device() || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return store(out, base);
  });
}

ENTRY(cuMemHostGetFlags)(unsigned* out, void* address) {
  return with_context([&](Context&) {
    const std::optional<Allocation> a = find_allocation(reinterpret_cast<uintptr_t>(address));
    if (!a || a->kind != Kind::kPinned) return CUDA_ERROR_INVALID_VALUE;
    return store(out, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  });
}

}  // namespace simgpu
