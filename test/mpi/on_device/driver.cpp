#include "driver.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace on_device {
namespace {

constexpr std::size_t alignment = 256;  // what the driver gives for device memory
constexpr unsigned non_blocking = 1;    // CU_STREAM_NON_BLOCKING
constexpr unsigned attach_global = 1;   // CU_MEM_ATTACH_GLOBAL
constexpr unsigned portable = 1;        // CU_MEMHOSTALLOC_PORTABLE

std::byte* bytes_at(unsigned long long address) {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) die(std::string("the CUDA driver has no ") + name);
}

}  // namespace

void die(const std::string& what) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  std::fprintf(stderr, "on_device: FAIL: rank %s: %s\n", rank ? rank : "?", what.c_str());
  std::fflush(stderr);
  std::abort();
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::host:
      return "host";
    case Kind::shadow:
      return "shadow";
    case Kind::pinned:
      return "pinned";
    case Kind::device:
      return "device";
    case Kind::managed:
      return "managed";
    case Kind::pool:
      return "pool";
  }
  return "?";
}

class Driver::Within {
 public:
  Within(Driver& driver, int device) : driver_(driver) {
    driver_.check(driver_.push_(driver_.context(device)), "cuCtxPushCurrent");
  }
  ~Within() {
    Context popped = nullptr;
    driver_.check(driver_.pop_(&popped), "cuCtxPopCurrent");
  }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  Driver& driver_;
};

Driver::Driver(int devices) {
  load();
  check(init_(0), "cuInit");
  int there = 0;
  check(device_count_(&there), "cuDeviceGetCount");
  if (there < devices) {
    die("there are " + std::to_string(there) + " devices, the test wants " +
        std::to_string(devices));
  }
  for (int i = 0; i < devices; ++i) {
    Device& device = devices_.emplace_back();
    check(device_get_(&device.number, i), "cuDeviceGet");
    check(retain_(&device.context, device.number), "cuDevicePrimaryCtxRetain");
    const Within within(*this, i);
    check(stream_create_(&device.stream, non_blocking), "cuStreamCreate");
  }
}

void Driver::load() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) die(std::string("no CUDA driver: ") + dlerror());
  find(library, "cuInit", init_);
  find(library, "cuGetErrorName", error_name_);
  find(library, "cuDeviceGetCount", device_count_);
  find(library, "cuDeviceGet", device_get_);
  find(library, "cuDevicePrimaryCtxRetain", retain_);
  find(library, "cuDevicePrimaryCtxReset_v2", reset_);
  find(library, "cuCtxGetCurrent", get_current_);
  find(library, "cuCtxSetCurrent", set_current_);
  find(library, "cuCtxPushCurrent_v2", push_);
  find(library, "cuCtxPopCurrent_v2", pop_);
  find(library, "cuStreamCreate", stream_create_);
  find(library, "cuStreamSynchronize", synchronize_);
  find(library, "cuMemGetInfo_v2", memory_);
  find(library, "cuMemAlloc_v2", alloc_device_);
  find(library, "cuMemAllocManaged", alloc_managed_);
  find(library, "cuMemHostAlloc", alloc_pinned_);
  find(library, "cuMemAllocAsync", alloc_pool_);
  find(library, "cuMemFree_v2", free_);
  find(library, "cuMemFreeHost", free_pinned_);
  find(library, "cuMemFreeAsync", free_pool_);
  find(library, "cuMemcpyHtoDAsync_v2", to_device_);
  find(library, "cuMemcpyDtoHAsync_v2", to_host_);
}

void Driver::check(Result result, const char* what) {
  if (result == 0) return;
  const char* name = nullptr;
  error_name_(result, &name);
  die(std::string(what) + " gives " + (name ? name : "an unknown error"));
}

std::byte* Driver::allocate(Kind kind, int device, std::size_t bytes) {
  const Within within(*this, device);
  Pointer address = 0;
  void* pinned = nullptr;
  switch (kind) {
    case Kind::device:
      check(alloc_device_(&address, bytes), "cuMemAlloc");
      break;
    case Kind::managed:
      check(alloc_managed_(&address, bytes, attach_global), "cuMemAllocManaged");
      break;
    case Kind::pool:
      check(alloc_pool_(&address, bytes, stream(device)), "cuMemAllocAsync");
      check(synchronize_(stream(device)), "cuStreamSynchronize");
      break;
    case Kind::pinned:
      check(alloc_pinned_(&pinned, bytes, portable), "cuMemHostAlloc");
      return static_cast<std::byte*>(pinned);
    default:
      die(std::string(name_of(kind)) + " memory is not the driver's");
  }
  if (address % alignment != 0) die("the driver gives unaligned memory");
  return bytes_at(address);
}

void Driver::free(Kind kind, int device, std::byte* memory) {
  const Within within(*this, device);
  const auto address = static_cast<Pointer>(reinterpret_cast<std::uintptr_t>(memory));
  if (kind == Kind::pinned) return check(free_pinned_(memory), "cuMemFreeHost");
  if (kind != Kind::pool) return check(free_(address), "cuMemFree");
  check(free_pool_(address, stream(device)), "cuMemFreeAsync");
  check(synchronize_(stream(device)), "cuStreamSynchronize");
}

void Driver::copy_up(Kind kind, int device, std::byte* to, const std::byte* from,
                     std::size_t bytes) {
  if (kind == Kind::pinned) {
    std::memcpy(to, from, bytes);
    return;
  }
  const Within within(*this, device);
  const auto address = static_cast<Pointer>(reinterpret_cast<std::uintptr_t>(to));
  check(to_device_(address, from, bytes, stream(device)), "cuMemcpyHtoDAsync");
  check(synchronize_(stream(device)), "cuStreamSynchronize");
}

void Driver::copy_down(Kind kind, int device, std::byte* to, const std::byte* from,
                       std::size_t bytes) {
  if (kind == Kind::pinned) {
    std::memcpy(to, from, bytes);
    return;
  }
  const Within within(*this, device);
  const auto address = static_cast<Pointer>(reinterpret_cast<std::uintptr_t>(from));
  check(to_host_(to, address, bytes, stream(device)), "cuMemcpyDtoHAsync");
  check(synchronize_(stream(device)), "cuStreamSynchronize");
}

void Driver::queue_copy_up(int device, std::byte* to, const std::byte* from, std::size_t bytes) {
  const Within within(*this, device);
  const auto address = static_cast<Pointer>(reinterpret_cast<std::uintptr_t>(to));
  check(to_device_(address, from, bytes, stream(device)), "cuMemcpyHtoDAsync");
}

Context Driver::current() {
  Context context = nullptr;
  check(get_current_(&context), "cuCtxGetCurrent");
  return context;
}

void Driver::make_current(Context context) {
  check(set_current_(context), "cuCtxSetCurrent");
}

std::size_t Driver::free_memory(int device) {
  const Within within(*this, device);
  std::size_t left = 0;
  std::size_t all = 0;
  check(memory_(&left, &all), "cuMemGetInfo");
  return left;
}

void Driver::reset() {
  for (const Device& device : devices_) check(reset_(device.number), "cuDevicePrimaryCtxReset");
}

}  // namespace on_device
