// Buffers in each kind of memory that a call may be made on.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cuda_reduce/memory.h"

namespace bench {

using gpuar::MemoryKind;

std::vector<std::string> memory_names();
MemoryKind memory_named(const std::string& name);  // one of memory_names()

// All but host memory wants a GPU to be current: see use_gpu(). What fails throws
// std::runtime_error.
class Buffer {
 public:
  Buffer(MemoryKind kind, std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // For MPI, and for the host too unless the kind is device.
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // Between host memory and `bytes` of the buffer from `offset` on; done on return.
  void write(std::size_t offset, const void* from, std::size_t bytes);
  void read(std::size_t offset, void* to, std::size_t bytes) const;

 private:
  MemoryKind kind_;
  std::size_t bytes_;
  void* data_ = nullptr;
};

}  // namespace bench
