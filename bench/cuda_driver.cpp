#include "bench/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <stdexcept>

namespace bench {
namespace {

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) {
    throw std::runtime_error(
        fmt::format("the CUDA driver (libcuda.so.1) lacks {}: a newer one is needed", name));
  }
}

CudaDriver open_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(fmt::format("no CUDA driver on this machine: {}", dlerror()));
  }
  CudaDriver driver = {};
  find(library, "cuInit", driver.init);
  find(library, "cuDriverGetVersion", driver.driver_version);
  find(library, "cuGetErrorName", driver.error_name);
  find(library, "cuDeviceGetCount", driver.device_count);
  find(library, "cuDeviceGet", driver.device);
  find(library, "cuDeviceGetName", driver.device_name);
  find(library, "cuDevicePrimaryCtxRetain", driver.primary_context);
  find(library, "cuCtxSetCurrent", driver.set_current);
  find(library, "cuCtxSynchronize", driver.synchronize);
  find(library, "cuMemAlloc_v2", driver.allocate);
  find(library, "cuMemFree_v2", driver.free);
  find(library, "cuMemHostAlloc", driver.allocate_pinned);
  find(library, "cuMemFreeHost", driver.free_pinned);
  find(library, "cuMemAllocManaged", driver.allocate_managed);
  find(library, "cuMemcpyHtoD_v2", driver.copy_up);
  find(library, "cuMemcpyDtoH_v2", driver.copy_down);
  find(library, "cuMemcpyDtoDAsync_v2", driver.copy_across);
  find(library, "cuStreamCreate", driver.create_stream);
  find(library, "cuStreamSynchronize", driver.wait_for_stream);
  return driver;
}

void check(const CudaDriver& driver, CudaResult result, const char* what) {
  if (result == 0) return;
  const char* name = nullptr;
  if (driver.error_name(result, &name) != 0 || name == nullptr) name = "an unknown error";
  throw std::runtime_error(fmt::format("{}: {} ({})", what, name, result));
}

CudaDriver start_driver() {
  const CudaDriver driver = open_driver();
  check(driver, driver.init(0), "initialising the CUDA driver");
  return driver;
}

}  // namespace

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = start_driver();
  return driver;
}

void check_cuda(CudaResult result, const char* what) {
  check(cuda_driver(), result, what);
}

const char* use_gpu(int which) {
  const CudaDriver& cuda = cuda_driver();
  int count = 0;
  check_cuda(cuda.device_count(&count), "counting GPUs");
  if (count == 0) throw std::runtime_error("the CUDA driver sees no GPU");
  CudaDevice device = 0;
  CudaContext context = nullptr;
  static std::array<char, 256> name = {};
  check_cuda(cuda.device(&device, which % count), "looking for a GPU");
  check_cuda(cuda.device_name(name.data(), name.size(), device), "asking for a GPU's name");
  check_cuda(cuda.primary_context(&context, device), "making a context on the GPU");
  check_cuda(cuda.set_current(context), "using a context of the GPU");
  return name.data();
}

}  // namespace bench
