// What the device tests allocate and compare with: the CUDA driver, opened by this program itself
// as a user's would, whichever libcuda.so.1 the loader finds.
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_reduce/gpu.h"
#include "test/catch.h"

namespace device {

inline void* library() {
  static void* handle = dlopen("libcuda.so.1", RTLD_NOW);
  return handle;
}

template <class Call>
Call find(const char* name) {
  return reinterpret_cast<Call>(dlsym(library(), name));
}

// The driver's function of that name, with the version suffix that cuda.h gives it.
#define DRIVER_NAME(function) #function
#define DRIVER_CALL(function) (device::find<decltype(&(function))>(DRIVER_NAME(function)))

inline void check(CUresult result) {
  REQUIRE(result == CUDA_SUCCESS);
}

// The device's primary context, current for the lifetime of this object.
class Context {
 public:
  explicit Context(int ordinal = 0) {
    REQUIRE(library() != nullptr);
    check(DRIVER_CALL(cuInit)(0));
    check(DRIVER_CALL(cuDeviceGet)(&device_, ordinal));
    check(DRIVER_CALL(cuDevicePrimaryCtxRetain)(&context_, device_));
    check(DRIVER_CALL(cuCtxPushCurrent)(context_));
  }
  ~Context() {
    CUcontext popped = nullptr;
    DRIVER_CALL(cuCtxPopCurrent)(&popped);
    if (!reset_) DRIVER_CALL(cuDevicePrimaryCtxRelease)(device_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  [[nodiscard]] CUcontext get() const { return context_; }
  // As a program does that thinks it has finished: all memory, streams and events are gone.
  void reset() {
    check(DRIVER_CALL(cuDevicePrimaryCtxReset)(device_));
    reset_ = true;
  }

 private:
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  bool reset_ = false;
};

inline CUcontext current_context() {
  CUcontext context = nullptr;
  check(DRIVER_CALL(cuCtxGetCurrent)(&context));
  return context;
}

enum class Kind { host, pinned, device, managed, pool };

class Memory {
 public:
  Memory(Kind kind, std::size_t bytes) : kind_(kind), bytes_(bytes) {
    CUdeviceptr at = 0;
    switch (kind) {
      case Kind::host:
        host_.resize(bytes);
        data_ = host_.data();
        return;
      case Kind::pinned:
        check(DRIVER_CALL(cuMemHostAlloc)(&data_, bytes, 0));
        return;
      case Kind::device:
        check(DRIVER_CALL(cuMemAlloc)(&at, bytes));
        break;
      case Kind::managed:
        check(DRIVER_CALL(cuMemAllocManaged)(&at, bytes, CU_MEM_ATTACH_GLOBAL));
        break;
      case Kind::pool:
        check(DRIVER_CALL(cuMemAllocAsync)(&at, bytes, nullptr));
        check(DRIVER_CALL(cuStreamSynchronize)(nullptr));
        break;
    }
    data_ = reinterpret_cast<void*>(at);
  }
  ~Memory() {
    if (kind_ == Kind::pinned) DRIVER_CALL(cuMemFreeHost)(data_);
    if (kind_ != Kind::pinned && kind_ != Kind::host) DRIVER_CALL(cuMemFree)(address());
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }
  [[nodiscard]] CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(data_); }

  void upload(const void* from) const {
    if (kind_ == Kind::host || kind_ == Kind::pinned)
      std::memcpy(data_, from, bytes_);
    else
      check(DRIVER_CALL(cuMemcpyHtoD)(address(), from, bytes_));
  }
  [[nodiscard]] std::vector<unsigned char> download() const {
    std::vector<unsigned char> bytes(bytes_);
    if (kind_ == Kind::host || kind_ == Kind::pinned)
      std::memcpy(bytes.data(), data_, bytes_);
    else
      check(DRIVER_CALL(cuMemcpyDtoH)(bytes.data(), address(), bytes_));
    return bytes;
  }

 private:
  Kind kind_;
  std::size_t bytes_;
  std::vector<unsigned char> host_;
  void* data_ = nullptr;
};

// The simulator's own extras; absent with a real driver.
inline unsigned long long counter(const char* name) {
  using Counter = unsigned long long (*)(const char*);
  const auto read = find<Counter>("simgpu_counter");
  return read == nullptr ? 0 : read(name);
}
inline bool is_simulated() {
  return find<void*>("simgpu_counter") != nullptr;
}

// Makes driver calls fail while it lives.
class Failing {
 public:
  explicit Failing(const char* rules) { REQUIRE(set(rules) == 0); }
  ~Failing() { set(nullptr); }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;

 private:
  static int set(const char* rules) { return find<int (*)(const char*)>("simgpu_fail")(rules); }
};

// What gpuar logged.
inline std::vector<std::string>& lines() {
  static std::vector<std::string> logged;
  return logged;
}

inline gpuar::CudaOptions options() {
  gpuar::CudaOptions options;
  if (const char* fault = std::getenv("GPUAR_TEST_FAULT")) options.test_fault = fault;
  lines().clear();
  options.log = [](const char* line) { lines().emplace_back(line); };
  return options;
}

inline gpuar::Gpu& gpu_of(gpuar::Cuda& cuda, const Memory& memory) {
  gpuar::Gpu* gpu = cuda.memory_of(memory.data()).gpu;
  REQUIRE(gpu != nullptr);
  return *gpu;
}

// An operation that notes how it ended.
struct Op : gpuar::GpuOp {
  Op() {
    owner = this;
    done = [](void* self, gpuar::Status status) {
      static_cast<Op*>(self)->status = status;
      ++static_cast<Op*>(self)->ends;
    };
  }
  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;
  gpuar::Status status = gpuar::Status::in_progress;
  int ends = 0;
};

inline void drain(gpuar::Cuda& cuda) {
  while (cuda.in_flight() != 0) cuda.poll();
}

}  // namespace device
