// Virtual memory management: memory without addresses, addresses without memory, and the joining
// of both. Another process cannot have the memory: no kind of handle is exported.
#include <cuda.h>
#include <unistd.h>

#include "context.h"
#include "memory.h"
#include "process.h"

namespace simgpu {
namespace {

constexpr size_t kGranularity = size_t{2} << 20;

struct Chunk {
  int device;
  size_t size;
  int file;
  CUmemAllocationProp properties;
  std::atomic<unsigned> held{1};  // by handles and mappings

  Chunk(int d, size_t s, int f, const CUmemAllocationProp& p)
      : device(d), size(s), file(f), properties(p) {}
  ~Chunk() {
    close(file);
    discharge(device, size);
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
};

struct Chunks {
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<Chunk>> all;
};

Chunks& chunks() {
  static auto* const one = new Chunks;
  return *one;
}

std::shared_ptr<Chunk> find_chunk(uint64_t handle) {
  const std::lock_guard lock(chunks().mutex);
  const auto found = chunks().all.find(handle);
  return found == chunks().all.end() ? nullptr : found->second;
}

void let_go(uint64_t handle) {
  const std::lock_guard lock(chunks().mutex);
  const auto found = chunks().all.find(handle);
  if (found != chunks().all.end() && --found->second->held == 0) chunks().all.erase(found);
}

CUresult no_memory() {
  return misuse(CUDA_ERROR_INVALID_VALUE, "no such memory, or not of that size");
}

}  // namespace

ENTRY(cuMemGetAllocationGranularity)
(size_t* out, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  return with_driver([&] { return store(out, kGranularity); });
}

ENTRY(cuMemAddressReserve)
(CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr, unsigned long long) {
  return with_driver([&] {
    if (out == nullptr || size == 0 || size % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
    const uintptr_t base = take_addresses(size, std::max(alignment, kGranularity));
    return base == 0 ? CUDA_ERROR_OUT_OF_MEMORY : store(out, base);
  });
}

ENTRY(cuMemAddressFree)(CUdeviceptr base, size_t size) {
  return with_driver([&] {
    bool mapped = false;
    for_each_allocation([&](const Allocation& a) {
      mapped = mapped || (a.base < base + size && base < a.base + a.size);
    });
    if (mapped)
      return misuse(CUDA_ERROR_INVALID_VALUE, "addresses are freed where memory is mapped");
    give_addresses(base, size);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemCreate)
(CUmemGenericAllocationHandle* out, size_t size, const CUmemAllocationProp* wanted,
 unsigned long long) {
  return with_driver([&] {
    if (out == nullptr || wanted == nullptr || size == 0 || size % kGranularity != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (wanted->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_NOT_SUPPORTED;
    const int device = wanted->location.id;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    if (!charge(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    const int file = new_memory_file(size);
    if (file < 0) {
      discharge(device, size);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const uint64_t handle = next_handle();
    const std::lock_guard lock(chunks().mutex);
    chunks().all[handle] = std::make_shared<Chunk>(device, size, file, *wanted);
    return store(out, handle);
  });
}

ENTRY(cuMemRelease)(CUmemGenericAllocationHandle handle) {
  return with_driver([&] {
    if (!find_chunk(handle)) return no_memory();
    let_go(handle);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemMap)
(CUdeviceptr base, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
 unsigned long long) {
  return with_driver([&] {
    const std::shared_ptr<Chunk> chunk = find_chunk(handle);
    if (!chunk || size != chunk->size || offset != 0 || !in_window(base)) return no_memory();
    Allocation a;
    a.base = base;
    a.size = a.mapped = size;
    a.kind = Kind::kMapped;
    a.device = chunk->device;
    a.file = chunk->file;
    a.chunk = handle;
    if (!map_chunk(a)) return CUDA_ERROR_INVALID_VALUE;
    chunk->held++;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemSetAccess)
(CUdeviceptr base, size_t, const CUmemAccessDesc* access, size_t length) {
  return with_driver([&] {
    uint64_t accessible = 0;
    for (size_t i = 0; i < length; i++)
      if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        accessible |= uint64_t{1} << access[i].location.id;
    const auto change = [&](Allocation& a) {
      a.accessible |= accessible;
      allow_access(a);
    };
    return change_allocation(base, change) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

ENTRY(cuMemUnmap)(CUdeviceptr base, size_t size) {
  return with_driver([&] {
    const std::optional<Allocation> a = find_allocation(base);
    if (!a || a->kind != Kind::kMapped || a->base != base || a->size != size) return no_memory();
    if (Context* const context = current_context()) synchronize(*context);
    unmap_chunk(base);
    let_go(a->chunk);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle* out, void* address) {
  return with_driver([&] {
    const std::optional<Allocation> a = find_allocation(reinterpret_cast<uintptr_t>(address));
    if (!a || a->kind != Kind::kMapped) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Chunk> chunk = find_chunk(a->chunk);
    if (!chunk) return CUDA_ERROR_INVALID_VALUE;
    chunk->held++;
    return store(out, a->chunk);
  });
}

ENTRY(cuMemGetAllocationPropertiesFromHandle)
(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  return with_driver([&] {
    const std::shared_ptr<Chunk> chunk = find_chunk(handle);
    return chunk ? store(out, chunk->properties) : no_memory();
  });
}

ENTRY(cuMemExportToShareableHandle)
(void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long) {
  return with_driver([] { return CUDA_ERROR_NOT_SUPPORTED; });
}

}  // namespace simgpu
