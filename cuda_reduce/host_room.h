// Room in host memory for data of a device: pinned while the pool has some, ordinary memory beyond
// (the driver then copies through memory of its own: slower, never wrong).
#pragma once

#include <cstddef>
#include <cstdlib>

#include "cuda_reduce/gpu.h"

namespace gpuar {

struct HostRoom {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::host;
};

// `data` is nullptr when there is no memory at all.
inline HostRoom take_room(Cuda& cuda, std::size_t bytes) {
  if (std::byte* pinned = cuda.take_pinned(bytes)) return {pinned, bytes, MemoryKind::pinned};
  return {static_cast<std::byte*>(std::malloc(bytes)), bytes, MemoryKind::host};
}

// Safe on a room that was never taken.
inline void give_room(Cuda& cuda, HostRoom& room) {
  if (room.kind == MemoryKind::pinned) {
    cuda.give_pinned(room.data, room.bytes);
  } else {
    std::free(room.data);
  }
  room = {};
}

}  // namespace gpuar
