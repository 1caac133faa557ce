#include "cuda_reduce/driver.h"

#include <dlfcn.h>
#include <link.h>

#include <fmt/format.h>

namespace gpuar::driver {
namespace {

// Looks functions up and remembers the first that is missing.
class Lookup {
 public:
  explicit Lookup(void* library) : library_(library) {}

  template <class Call>
  void required(const char* name, Call& call) {
    optional(name, call);
    if (call == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <class Call>
  void optional(const char* name, Call& call) {
    call = reinterpret_cast<Call>(dlsym(library_, name));
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void look_up_devices(Lookup& lookup, Functions& f) {
  lookup.required("cuDriverGetVersion", f.cuDriverGetVersion);
  lookup.required("cuGetErrorName", f.cuGetErrorName);
  lookup.required("cuDeviceGet", f.cuDeviceGet);
  lookup.required("cuDeviceGetName", f.cuDeviceGetName);
  lookup.required("cuDeviceGetUuid_v2", f.cuDeviceGetUuid_v2);
  lookup.required("cuDeviceGetPCIBusId", f.cuDeviceGetPCIBusId);
  lookup.required("cuDeviceGetAttribute", f.cuDeviceGetAttribute);
  lookup.required("cuDevicePrimaryCtxRetain", f.cuDevicePrimaryCtxRetain);
  lookup.required("cuDevicePrimaryCtxRelease_v2", f.cuDevicePrimaryCtxRelease_v2);
  lookup.required("cuCtxGetDevice", f.cuCtxGetDevice);
  lookup.required("cuCtxPushCurrent_v2", f.cuCtxPushCurrent_v2);
  lookup.required("cuCtxPopCurrent_v2", f.cuCtxPopCurrent_v2);
  lookup.required("cuThreadExchangeStreamCaptureMode", f.cuThreadExchangeStreamCaptureMode);
  lookup.optional("cuCtxGetId", f.cuCtxGetId);
  lookup.optional("cuCtxRecordEvent", f.cuCtxRecordEvent);
}

void look_up_memory(Lookup& lookup, Functions& f) {
  lookup.required("cuPointerGetAttribute", f.cuPointerGetAttribute);
  lookup.required("cuPointerGetAttributes", f.cuPointerGetAttributes);
  lookup.required("cuMemAlloc_v2", f.cuMemAlloc_v2);
  lookup.required("cuMemFree_v2", f.cuMemFree_v2);
  lookup.required("cuIpcGetMemHandle", f.cuIpcGetMemHandle);
  lookup.required("cuIpcOpenMemHandle_v2", f.cuIpcOpenMemHandle_v2);
  lookup.required("cuIpcCloseMemHandle", f.cuIpcCloseMemHandle);
  lookup.required("cuMemHostAlloc", f.cuMemHostAlloc);
  lookup.required("cuMemFreeHost", f.cuMemFreeHost);
  lookup.required("cuMemcpyAsync", f.cuMemcpyAsync);
}

void look_up_work(Lookup& lookup, Functions& f) {
  lookup.required("cuStreamCreate", f.cuStreamCreate);
  lookup.required("cuStreamDestroy_v2", f.cuStreamDestroy_v2);
  lookup.required("cuStreamQuery", f.cuStreamQuery);
  lookup.required("cuStreamSynchronize", f.cuStreamSynchronize);
  lookup.required("cuEventCreate", f.cuEventCreate);
  lookup.required("cuEventDestroy_v2", f.cuEventDestroy_v2);
  lookup.required("cuEventRecord", f.cuEventRecord);
  lookup.required("cuEventQuery", f.cuEventQuery);
  lookup.required("cuModuleLoadData", f.cuModuleLoadData);
  lookup.required("cuModuleUnload", f.cuModuleUnload);
  lookup.required("cuModuleGetFunction", f.cuModuleGetFunction);
  lookup.required("cuOccupancyMaxActiveBlocksPerMultiprocessor",
                  f.cuOccupancyMaxActiveBlocksPerMultiprocessor);
  lookup.required("cuLaunchKernel", f.cuLaunchKernel);
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return "libcuda.so.1";
  return map->l_name;
}

std::string version_text(const Functions& functions) {
  int version = 0;
  if (functions.cuDriverGetVersion == nullptr ||
      functions.cuDriverGetVersion(&version) != Result::success)
    return "of unknown version";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

Driver Driver::find() {
  Driver driver;
  driver.handle_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
  if (driver.handle_ == nullptr) return driver;
  driver.path_ = path_of(driver.handle_);
  Lookup lookup(driver.handle_);
  look_up_devices(lookup, driver.functions_);
  look_up_memory(lookup, driver.functions_);
  look_up_work(lookup, driver.functions_);
  if (lookup.missing() != nullptr)
    driver.trouble_ =
        fmt::format("too old: it lacks {}; gpuar needs CUDA 11.4 or later", lookup.missing());
  return driver;
}

void Driver::drop_optional() {
  functions_.cuCtxGetId = nullptr;
  functions_.cuCtxRecordEvent = nullptr;
}

bool Driver::says_device(const void* pointer) const {
  if (!found() || functions_.cuPointerGetAttribute == nullptr) return false;
  std::uint32_t type = 0;
  const auto address = reinterpret_cast<DevicePointer>(pointer);
  return functions_.cuPointerGetAttribute(&type, PointerAttribute::memory_type, address) ==
             Result::success &&
         type == memory_type_device;
}

std::string Driver::describe() const {
  if (!found()) return "no CUDA so far: nothing in this process has loaded libcuda.so.1";
  const std::string text = fmt::format("CUDA driver {} ({})", version_text(functions_), path_);
  return trouble_.empty() ? text : fmt::format("{} is {}", text, trouble_);
}

std::string Driver::name_of(Result result) const {
  const char* name = nullptr;
  if (functions_.cuGetErrorName(result, &name) == Result::success && name != nullptr) return name;
  return fmt::format("CUDA error {}", static_cast<int>(result));
}

}  // namespace gpuar::driver
