// A buffer's stand-in in other memory, between guard bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "settings.h"

namespace on_device {

// The driver of this process; opens it at first use.
Driver& driver();
bool driver_is_open();

// How much was moved.
struct Totals {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> buffers[std::size(all_kinds)]{};
  std::atomic<std::uint64_t> reused{0};  // buffers at the address of an earlier one
};
Totals& totals();

// The bytes of a program's buffer: `bytes` of them, the first one `low` bytes from the address that
// MPI is given.
struct Span {
  std::ptrdiff_t low = 0;
  std::size_t bytes = 0;
};

class Shadow {
 public:
  Shadow() = default;  // none: the program's own buffer is used
  Shadow(Kind kind, int device, void* buffer, Span span);
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;
  Shadow& operator=(Shadow&& other) noexcept;

  explicit operator bool() const { return memory_ != nullptr; }
  // What MPI is given instead of the program's buffer.
  [[nodiscard]] void* buffer() const;

  // Brings the program's bytes here.
  void load();
  // The send side: what lies here must be what was loaded.
  void check_unchanged(const char* call) const;
  // The receive side: brings back what has changed. Other bytes of the program's memory are left
  // alone: they may be another call's by now, where an element has gaps.
  void write_back(const char* call) const;

  // Never frees the memory: something may still be using it.
  void abandon() { memory_ = nullptr; }

 private:
  [[nodiscard]] std::vector<std::byte> fetch(const char* call) const;
  [[nodiscard]] std::size_t first() const;  // offset of the span in the memory

  Kind kind_ = Kind::host;
  int device_ = 0;
  std::byte* user_ = nullptr;  // first byte of the program's span
  Span span_;
  std::byte* memory_ = nullptr;
  std::vector<std::byte> image_;  // the memory as it was loaded, guard bytes included
};

}  // namespace on_device
