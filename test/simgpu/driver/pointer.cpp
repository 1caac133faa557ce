// What the driver tells about an address.
#include <cuda.h>

#include "context.h"
#include "memory.h"

namespace simgpu {
namespace {

// Alone, an unknown address is an error; in bulk, it has attributes that say so.
enum class Asked { kAlone, kInBulk };

bool has_context(const Allocation& a) {
  return a.kind != Kind::kPool && a.kind != Kind::kMapped;
}

bool host_visible(const Allocation& a) {
  return !a.on_device() || a.kind == Kind::kManaged;
}

CUresult attribute_of_known(void* out, CUpointer_attribute what, uintptr_t address,
                            const Allocation& a, Asked asked) {
  switch (what) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return store(static_cast<CUcontext*>(out), has_context(a) ? a.context : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return store(static_cast<unsigned*>(out),
                   a.on_device() ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return store(static_cast<CUdeviceptr*>(out), address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host_visible(a) && asked == Asked::kAlone) return CUDA_ERROR_INVALID_VALUE;
      return store(static_cast<void**>(out),
                   host_visible(a) ? reinterpret_cast<void*>(address) : nullptr);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return store(static_cast<unsigned*>(out), a.sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return store(static_cast<unsigned long long*>(out), a.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return store(static_cast<unsigned*>(out), a.kind == Kind::kManaged ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return store(static_cast<int*>(out), a.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return store(static_cast<int*>(out), a.kind == Kind::kDevice ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return store(static_cast<CUdeviceptr*>(out), a.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return store(static_cast<size_t*>(out), a.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return store(static_cast<int*>(out), 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return store(static_cast<unsigned long long*>(out), 0);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return store(static_cast<CUmemoryPool*>(out), a.pool);
    default:
      trace("pointer attribute %d is not simulated", static_cast<int>(what));
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult attribute_of_unknown(void* out, CUpointer_attribute what) {
  switch (what) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return store(static_cast<int*>(out), 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return store(static_cast<int*>(out), CU_DEVICE_INVALID);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return store(static_cast<uint64_t*>(out), 0);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

ENTRY(cuPointerGetAttribute)(void* out, CUpointer_attribute what, CUdeviceptr address) {
  return with_driver([&] {
    const std::optional<Allocation> a = find_allocation(address);
    if (!a || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return attribute_of_known(out, what, address, *a, Asked::kAlone);
  });
}

ENTRY(cuPointerGetAttributes)
(unsigned count, CUpointer_attribute* what, void** out, CUdeviceptr address) {
  return with_driver([&] {
    if (count == 0 || what == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::optional<Allocation> a = find_allocation(address);
    for (unsigned i = 0; i < count; i++) {
      const CUresult r = a ? attribute_of_known(out[i], what[i], address, *a, Asked::kInBulk)
                           : attribute_of_unknown(out[i], what[i]);
      if (r != CUDA_SUCCESS) return r;
    }
    return CUDA_SUCCESS;
  });
}

ENTRY(cuPointerSetAttribute)(const void* value, CUpointer_attribute what, CUdeviceptr address) {
  return with_driver([&] {
    const std::optional<Allocation> a = find_allocation(address);
    if (!a || value == nullptr || what != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !a->on_device())
      return CUDA_ERROR_INVALID_VALUE;
    const bool wanted = *static_cast<const unsigned*>(value) != 0;
    change_allocation(a->base, [&](Allocation& changed) { changed.sync_memops = wanted; });
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemGetAddressRange)(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  return with_driver([&] {
    const std::optional<Allocation> a = find_allocation(address);
    if (!a || a->kind == Kind::kRegistered) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = a->base;
    if (size != nullptr) *size = a->size;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemRangeGetAttribute)
(void* out, size_t size, CUmem_range_attribute, CUdeviceptr address, size_t) {
  return with_driver([&] {
    const std::optional<Allocation> a = find_allocation(address);
    if (!a || a->kind != Kind::kManaged || size != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
    return store(static_cast<int*>(out), CU_DEVICE_INVALID);
  });
}

// Hints about managed memory that change nothing here.
ENTRY(cuMemAdvise)(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) {
  return with_driver([] { return CUDA_SUCCESS; });
}

ENTRY(cuMemPrefetchAsync)(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream stream) {
  return with_stream(stream, [](Context&, Stream&) { return CUDA_SUCCESS; });
}

// No DMA-BUF.
ENTRY(cuMemGetHandleForAddressRange)
(void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long) {
  return with_driver([] { return CUDA_ERROR_NOT_SUPPORTED; });
}

}  // namespace simgpu
