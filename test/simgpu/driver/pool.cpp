// Memory pools: stream-ordered allocation. Their memory belongs to no context, and no other process
// can open it.
#include <cuda.h>

#include "context.h"
#include "memory.h"
#include "process.h"

namespace simgpu {

struct Pool {
  int device;
  uint64_t accessible;
  uint64_t threshold;
  const Caller* maker;
};

namespace {

Handles<CUmemoryPool, Pool>& pools() {
  static auto* const all = new Handles<CUmemoryPool, Pool>;
  return *all;
}

// The driver makes one per device.
CUmemoryPool default_pool(int device) {
  static std::mutex mutex;
  static auto* const made = new std::map<int, CUmemoryPool>;
  const std::lock_guard lock(mutex);
  CUmemoryPool& pool = (*made)[device];
  if (pool == nullptr)
    pool = pools().add(std::shared_ptr<Pool>(new Pool{device, uint64_t{1} << device, 0, nullptr}));
  return pool;
}

CUresult no_pool() {
  return misuse(CUDA_ERROR_INVALID_VALUE, "no such memory pool");
}

CUresult allocate_from(CUdeviceptr* out, size_t size, CUmemoryPool handle, Context& context) {
  const std::shared_ptr<Pool> pool = pools().find(handle);
  if (!pool) return no_pool();
  if (pool->device != context.device)
    return misuse(CUDA_ERROR_INVALID_VALUE, "the memory pool is of another device");
  const CUresult r = allocate(context, size, Kind::kPool, handle, out);
  if (r == CUDA_SUCCESS)
    change_allocation(*out, [&](Allocation& a) { a.accessible = pool->accessible; });
  return r;
}

}  // namespace

ENTRY(cuDeviceGetDefaultMemPool)(CUmemoryPool* out, CUdevice device) {
  return with_driver([&] {
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    return store(out, default_pool(device));
  });
}

ENTRY(cuDeviceGetMemPool)(CUmemoryPool* out, CUdevice device) {
  return simgpu_cuDeviceGetDefaultMemPool(out, device);
}

ENTRY(cuMemPoolCreate)(CUmemoryPool* out, const CUmemPoolProps* wanted) {
  return with_driver([&] {
    if (wanted == nullptr || wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    const int device = wanted->location.id;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    if (wanted->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    return store(out, pools().add(std::shared_ptr<Pool>(
                          new Pool{device, uint64_t{1} << device, 0, current_caller()})));
  });
}

ENTRY(cuMemPoolDestroy)(CUmemoryPool pool) {
  return with_driver([&] { return pools().remove(pool) ? CUDA_SUCCESS : no_pool(); });
}

ENTRY(cuMemPoolSetAccess)(CUmemoryPool handle, const CUmemAccessDesc* access, size_t length) {
  return with_driver([&] {
    const std::shared_ptr<Pool> pool = pools().find(handle);
    if (!pool) return no_pool();
    for (size_t i = 0; i < length; i++) {
      const int device = access[i].location.id;
      if (!can_access(device, pool->device) && device != pool->device)
        return CUDA_ERROR_INVALID_DEVICE;
      const uint64_t bit = uint64_t{1} << device;
      if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
        pool->accessible &= ~bit;
      else
        pool->accessible |= bit;
    }
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemPoolGetAccess)(CUmemAccess_flags* out, CUmemoryPool handle, CUmemLocation* location) {
  return with_driver([&] {
    const std::shared_ptr<Pool> pool = pools().find(handle);
    if (!pool || location == nullptr) return no_pool();
    return store(out, (pool->accessible >> location->id & 1) != 0
                          ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                          : CU_MEM_ACCESS_FLAGS_PROT_NONE);
  });
}

ENTRY(cuMemPoolSetAttribute)(CUmemoryPool handle, CUmemPool_attribute what, void* value) {
  return with_driver([&] {
    const std::shared_ptr<Pool> pool = pools().find(handle);
    if (!pool || value == nullptr) return no_pool();
    if (what == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
      pool->threshold = *static_cast<const uint64_t*>(value);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemPoolGetAttribute)(CUmemoryPool handle, CUmemPool_attribute what, void* value) {
  return with_driver([&] {
    const std::shared_ptr<Pool> pool = pools().find(handle);
    if (!pool || value == nullptr) return no_pool();
    if (what != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return CUDA_ERROR_NOT_SUPPORTED;
    return store(static_cast<uint64_t*>(value), pool->threshold);
  });
}

// Freed memory is never kept.
ENTRY(cuMemPoolTrimTo)(CUmemoryPool handle, size_t) {
  return with_driver([&] { return pools().find(handle) ? CUDA_SUCCESS : no_pool(); });
}

ENTRY(cuMemAllocAsync)(CUdeviceptr* out, size_t size, CUstream handle) {
  return with_stream(handle, [&](Context&, Stream& stream) {
    Context& context = stream.context();
    return allocate_from(out, size, default_pool(context.device), context);
  });
}

ENTRY(cuMemAllocFromPoolAsync)(CUdeviceptr* out, size_t size, CUmemoryPool pool, CUstream handle) {
  return with_stream(handle, [&](Context&, Stream& stream) {
    return allocate_from(out, size, pool, stream.context());
  });
}

ENTRY(cuMemFreeAsync)(CUdeviceptr address, CUstream handle) {
  return with_stream(handle, [&](Context&, Stream& stream) {
    const std::optional<Allocation> a = find_allocation(address);
    const bool right = a && a->base == address && !a->freeing &&
                       (a->kind == Kind::kPool || a->kind == Kind::kDevice);
    if (!right)
      return misuse(CUDA_ERROR_INVALID_VALUE, "nothing to free at %p",
                    reinterpret_cast<void*>(address));
    change_allocation(address, [](Allocation& changed) { changed.freeing = true; });
    submit(stream, [address] { release(address); });
    return CUDA_SUCCESS;
  });
}

}  // namespace simgpu
