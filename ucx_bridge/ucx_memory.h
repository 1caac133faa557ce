// The kinds of memory as UCX names them. For this room only.
#pragma once

#include <ucp/api/ucp.h>

#include <array>

#include "cuda_reduce/memory.h"

namespace gpuar {

// By MemoryKind: host, pinned, device, managed.
inline constexpr std::array<ucs_memory_type_t, 4> memory_types{
    UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_CUDA_MANAGED};

constexpr ucs_memory_type_t ucx_type(MemoryKind kind) {
  return memory_types[static_cast<std::size_t>(kind)];
}
static_assert(ucx_type(MemoryKind::device) == UCS_MEMORY_TYPE_CUDA);
static_assert(ucx_type(MemoryKind::managed) == UCS_MEMORY_TYPE_CUDA_MANAGED);

}  // namespace gpuar
