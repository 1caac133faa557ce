#include "bench/device_buffer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "bench/cuda_driver.h"

namespace bench {
namespace {

constexpr std::array all_memory_kinds = {MemoryKind::host, MemoryKind::pinned, MemoryKind::device,
                                         MemoryKind::managed};

constexpr unsigned usable_in_every_context = 1;  // CU_MEMHOSTALLOC_PORTABLE
constexpr unsigned usable_in_every_stream = 1;   // CU_MEM_ATTACH_GLOBAL

CudaAddress address_of(const void* data) {
  return reinterpret_cast<CudaAddress>(data);
}

void* pointer_to(CudaAddress address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

void* allocate(MemoryKind kind, std::size_t bytes) {
  CudaAddress address = 0;
  void* data = nullptr;
  switch (kind) {
    case MemoryKind::host:
      data = std::malloc(bytes);  // NOLINT(cppcoreguidelines-no-malloc): like any program's
      if (data == nullptr) throw std::bad_alloc();
      return data;
    case MemoryKind::pinned:
      check_cuda(cuda_driver().allocate_pinned(&data, bytes, usable_in_every_context),
                 "allocating pinned host memory");
      return data;
    case MemoryKind::device:
      check_cuda(cuda_driver().allocate(&address, bytes), "allocating device memory");
      return pointer_to(address);
    case MemoryKind::managed:
      check_cuda(cuda_driver().allocate_managed(&address, bytes, usable_in_every_stream),
                 "allocating managed memory");
      return pointer_to(address);
  }
  return data;
}

}  // namespace

std::vector<std::string> memory_names() {
  std::vector<std::string> names;
  names.reserve(std::size(all_memory_kinds));
  for (const MemoryKind kind : all_memory_kinds) names.emplace_back(describe(kind));
  return names;
}

MemoryKind memory_named(const std::string& name) {
  return *std::find_if(all_memory_kinds.begin(), all_memory_kinds.end(),
                       [&](MemoryKind kind) { return name == describe(kind); });
}

Buffer::Buffer(MemoryKind kind, std::size_t bytes)
    : kind_(kind), bytes_(bytes), data_(allocate(kind, std::max<std::size_t>(bytes, 1))) {}

Buffer::~Buffer() {
  switch (kind_) {
    case MemoryKind::host:
      std::free(data_);  // NOLINT(cppcoreguidelines-no-malloc)
      return;
    case MemoryKind::pinned:
      static_cast<void>(cuda_driver().free_pinned(data_));
      return;
    case MemoryKind::device:
    case MemoryKind::managed:
      static_cast<void>(cuda_driver().free(address_of(data_)));
      return;
  }
}

void Buffer::write(std::size_t offset, const void* from, std::size_t bytes) {
  void* to = static_cast<std::byte*>(data_) + offset;
  if (kind_ != MemoryKind::device) {
    std::memcpy(to, from, bytes);
    return;
  }
  check_cuda(cuda_driver().copy_up(address_of(to), from, bytes), "copying to the device");
  // From pageable memory the copy may still be under way.
  check_cuda(cuda_driver().synchronize(), "waiting for a copy to the device");
}

void Buffer::read(std::size_t offset, void* to, std::size_t bytes) const {
  const void* from = static_cast<const std::byte*>(data_) + offset;
  if (kind_ != MemoryKind::device) {
    std::memcpy(to, from, bytes);
    return;
  }
  check_cuda(cuda_driver().copy_down(to, address_of(from), bytes), "copying from the device");
}

}  // namespace bench
