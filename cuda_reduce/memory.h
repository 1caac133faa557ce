// Kinds of memory. The face of cuda_reduce that the bridge and the engine see, free of CUDA.
#pragma once

#include <cstdint>

namespace gpuar {

class Gpu;

enum class MemoryKind : std::uint8_t {
  host,     // pageable
  pinned,   // host memory that the driver knows: page-locked or registered
  device,   // the host cannot touch it
  managed,  // moves between host and device; gpuar treats it as the device's
};

constexpr const char* describe(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::host:
      return "host";
    case MemoryKind::pinned:
      return "pinned";
    case MemoryKind::device:
      return "device";
    case MemoryKind::managed:
      return "managed";
  }
  return "unknown";
}

// What the driver says about a buffer.
struct Memory {
  MemoryKind kind = MemoryKind::host;
  // Another process can map it by a legacy IPC handle: not so for memory from a stream-ordered
  // pool, from the virtual memory functions, and managed memory.
  bool exportable = true;
  Gpu* gpu = nullptr;  // of device and managed memory: the context that it belongs to
};

// Neither the host nor, as far as the driver says, any device reaches it: CUDA is in error.
constexpr bool is_out_of_reach(const Memory& memory) {
  return memory.kind == MemoryKind::device && memory.gpu == nullptr;
}

}  // namespace gpuar
