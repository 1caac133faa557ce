// The CUDA driver as the moved programs use it: opened by name, declared here, so that neither the
// build nor a program on host memory needs CUDA.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace on_device {

// Says what is wrong, as rank and text, and ends the process.
[[noreturn]] void die(const std::string& what);

enum class Kind { host, shadow, pinned, device, managed, pool };
inline constexpr Kind all_kinds[] = {Kind::host,   Kind::shadow,  Kind::pinned,
                                     Kind::device, Kind::managed, Kind::pool};
const char* name_of(Kind kind);

// Whether the memory is the driver's; else it is the program's own or from the C library.
constexpr bool is_drivers(Kind kind) {
  return kind != Kind::host && kind != Kind::shadow;
}

using Context = void*;

// The driver, the primary contexts of the first devices and a stream in each. Any thread. A driver
// that is missing or refuses anything ends the process.
class Driver {
 public:
  explicit Driver(int devices);

  // Memory of a kind; of the C library for Kind::shadow.
  std::byte* allocate(Kind kind, int device, std::size_t bytes);
  void free(Kind kind, int device, std::byte* memory);

  // Complete when they return, for every stream.
  void copy_up(Kind kind, int device, std::byte* to, const std::byte* from, std::size_t bytes);
  void copy_down(Kind kind, int device, std::byte* to, const std::byte* from, std::size_t bytes);

  Context current();
  void make_current(Context context);
  Context context(int device) const { return devices_[static_cast<std::size_t>(device)].context; }

  // Only queues the copy, as a program does that goes on at once; `from` is pinned memory.
  void queue_copy_up(int device, std::byte* to, const std::byte* from, std::size_t bytes);

  std::size_t free_memory(int device);

  // What cudaDeviceReset does, on all devices: the contexts and all that is in them are gone.
  void reset();

 private:
  using Result = int;
  using Pointer = unsigned long long;
  using Stream = void*;
  struct Device {
    int number = 0;
    Context context = nullptr;
    Stream stream = nullptr;
  };
  class Within;  // makes a device's context current for its lifetime

  void load();
  void check(Result result, const char* what);
  Stream stream(int device) const { return devices_[static_cast<std::size_t>(device)].stream; }

  std::vector<Device> devices_;

  Result (*init_)(unsigned) = nullptr;
  Result (*error_name_)(Result, const char**) = nullptr;
  Result (*device_count_)(int*) = nullptr;
  Result (*device_get_)(int*, int) = nullptr;
  Result (*retain_)(Context*, int) = nullptr;
  Result (*reset_)(int) = nullptr;
  Result (*get_current_)(Context*) = nullptr;
  Result (*set_current_)(Context) = nullptr;
  Result (*push_)(Context) = nullptr;
  Result (*pop_)(Context*) = nullptr;
  Result (*stream_create_)(Stream*, unsigned) = nullptr;
  Result (*synchronize_)(Stream) = nullptr;
  Result (*memory_)(std::size_t*, std::size_t*) = nullptr;
  Result (*alloc_device_)(Pointer*, std::size_t) = nullptr;
  Result (*alloc_managed_)(Pointer*, std::size_t, unsigned) = nullptr;
  Result (*alloc_pinned_)(void**, std::size_t, unsigned) = nullptr;
  Result (*alloc_pool_)(Pointer*, std::size_t, Stream) = nullptr;
  Result (*free_)(Pointer) = nullptr;
  Result (*free_pinned_)(void*) = nullptr;
  Result (*free_pool_)(Pointer, Stream) = nullptr;
  Result (*to_device_)(Pointer, const void*, std::size_t, Stream) = nullptr;
  Result (*to_host_)(void*, Pointer, std::size_t, Stream) = nullptr;
};

}  // namespace on_device
