// What the driver tells about devices and about itself.
#include "device.h"

#include <cuda.h>

#include <cstring>

#include "context.h"
#include "process.h"
#include "settings.h"

namespace simgpu {
namespace {

constexpr int kVersion = 13000;

template <class Body>
CUresult with_device(CUdevice device, Body&& body) {
  return with_driver([&] {
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    return body(physical(device));
  });
}

// An H100's, but for the number of multiprocessors; no DMA-BUF, GPUDirect RDMA or fabric.
int attribute(CUdevice_attribute what, int physical_device) {
  switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return settings().multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 48 * 1024;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 2619000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 5120;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return kFirstBus + physical_device;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
      return 1;
    default:
      return 0;
  }
}

const char* error_name(CUresult error) {
  switch (error) {
#define NAMED(name) \
  case name:        \
    return #name;
    NAMED(CUDA_SUCCESS)
    NAMED(CUDA_ERROR_INVALID_VALUE)
    NAMED(CUDA_ERROR_OUT_OF_MEMORY)
    NAMED(CUDA_ERROR_NOT_INITIALIZED)
    NAMED(CUDA_ERROR_DEINITIALIZED)
    NAMED(CUDA_ERROR_NO_DEVICE)
    NAMED(CUDA_ERROR_INVALID_DEVICE)
    NAMED(CUDA_ERROR_INVALID_IMAGE)
    NAMED(CUDA_ERROR_INVALID_CONTEXT)
    NAMED(CUDA_ERROR_MAP_FAILED)
    NAMED(CUDA_ERROR_ALREADY_MAPPED)
    NAMED(CUDA_ERROR_NO_BINARY_FOR_GPU)
    NAMED(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
    NAMED(CUDA_ERROR_INVALID_PTX)
    NAMED(CUDA_ERROR_INVALID_HANDLE)
    NAMED(CUDA_ERROR_ILLEGAL_STATE)
    NAMED(CUDA_ERROR_NOT_FOUND)
    NAMED(CUDA_ERROR_NOT_READY)
    NAMED(CUDA_ERROR_ILLEGAL_ADDRESS)
    NAMED(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)
    NAMED(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    NAMED(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
    NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED)
    NAMED(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
    NAMED(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
    NAMED(CUDA_ERROR_LAUNCH_FAILED)
    NAMED(CUDA_ERROR_NOT_PERMITTED)
    NAMED(CUDA_ERROR_NOT_SUPPORTED)
    NAMED(CUDA_ERROR_SYSTEM_NOT_READY)
    NAMED(CUDA_ERROR_UNKNOWN)
#undef NAMED
    default:
      return nullptr;
  }
}

CUresult tell_error(CUresult error, const char** out) {
  const char* const name = error_name(error);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = name;
  return name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// From which CUDA version on a plain name means a later version of the function. What is not
// here has its latest meaning since CUDA 11 or longer.
struct Since {
  const char* name;
  int version;
};
constexpr Since kSince[] = {
    {"cuGetProcAddress_v2", 12000},    {"cuCtxCreate_v4", 12050},
    {"cuCtxCreate_v3", 11040},         {"cuCtxGetDevice_v2", 13000},
    {"cuCtxSynchronize_v2", 13000},    {"cuDeviceGetUuid_v2", 11040},
    {"cuEventElapsedTime_v2", 12080},  {"cuMemAdvise_v2", 12020},
    {"cuMemPrefetchAsync_v2", 12020},  {"cuStreamGetCtx_v2", 12050},
    {"cuStreamWaitValue32_v2", 11070}, {"cuStreamWriteValue32_v2", 11070},
};

int entry_for(const std::string& name, int version) {
  for (const char* suffix : {"_v4", "_v3", "_v2", ""}) {
    const std::string versioned = name + suffix;
    const int number = function_number(versioned);
    if (number < 0) continue;
    bool usable = true;
    for (const Since& since : kSince)
      usable = usable && (versioned != since.name || version >= since.version);
    if (usable) return number;
  }
  return -1;
}

CUresult proc_address(const char* name, void** out, int version,
                      CUdriverProcAddressQueryResult* status) {
  const Hidden hidden;
  if (name == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int number = entry_for(name, version);
  *out = number < 0 ? nullptr : function_entry(number);
  if (status != nullptr)
    *status = number < 0 ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  return number < 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

}  // namespace

ENTRY(cuDriverGetVersion)(int* out) {
  return store(out, kVersion);
}

ENTRY(cuGetErrorName)(CUresult error, const char** out) {
  return tell_error(error, out);
}
ENTRY(cuGetErrorString)(CUresult error, const char** out) {
  return tell_error(error, out);
}

ENTRY(cuGetProcAddress)
(const char* name, void** out, int version, cuuint64_t, CUdriverProcAddressQueryResult* status) {
  return proc_address(name, out, version, status);
}

extern "C" CUresult simgpu_cuGetProcAddress(const char* name, void** out, int version, cuuint64_t) {
  return proc_address(name, out, version, nullptr);
}

ENTRY(cuDeviceGetCount)(int* out) {
  return with_driver([&] { return store(out, device_count()); });
}

ENTRY(cuDeviceGet)(CUdevice* out, int ordinal) {
  return with_device(ordinal, [&](int) { return store(out, ordinal); });
}

ENTRY(cuDeviceGetName)(char* out, int size, CUdevice device) {
  return with_device(device, [&](int number) {
    if (out == nullptr || size <= 0) return CUDA_ERROR_INVALID_VALUE;
    snprintf(out, static_cast<size_t>(size), "Simulated GPU %d", number);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuDeviceTotalMem)(size_t* out, CUdevice device) {
  return with_device(device, [&](int) { return store(out, settings().memory); });
}

ENTRY(cuDeviceGetUuid)(CUuuid* out, CUdevice device) {
  return with_device(device, [&](int number) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Uuid uuid = uuid_of(number, settings().uuid_base);
    memcpy(out->bytes, uuid.data(), uuid.size());
    return CUDA_SUCCESS;
  });
}

ENTRY(cuDeviceGetPCIBusId)(char* out, int size, CUdevice device) {
  return with_device(device, [&](int number) {
    if (out == nullptr || size < 13) return CUDA_ERROR_INVALID_VALUE;
    snprintf(out, static_cast<size_t>(size), "0000:%02X:00.0", kFirstBus + number);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuDeviceGetByPCIBusId)(CUdevice* out, const char* bus) {
  return with_driver([&] {
    unsigned domain = 0, number = 0;
    if (bus == nullptr || sscanf(bus, "%x:%x:", &domain, &number) != 2)
      return CUDA_ERROR_INVALID_VALUE;
    const int device = device_of_physical(static_cast<int>(number) - kFirstBus);
    return device < 0 ? CUDA_ERROR_INVALID_DEVICE : store(out, device);
  });
}

ENTRY(cuDeviceGetAttribute)(int* out, CUdevice_attribute what, CUdevice device) {
  return with_device(device, [&](int number) { return store(out, attribute(what, number)); });
}

ENTRY(cuDeviceCanAccessPeer)(int* out, CUdevice device, CUdevice other) {
  return with_device(device, [&](int) { return store(out, can_access(device, other) ? 1 : 0); });
}

ENTRY(cuDeviceGetP2PAttribute)
(int* out, CUdevice_P2PAttribute what, CUdevice device, CUdevice other) {
  return with_device(device, [&](int) {
    const bool supported =
        can_access(device, other) && what != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK;
    return store(out, supported ? 1 : 0);
  });
}

extern "C" CUresult simgpu_cuProfilerStart() {
  return with_driver([] { return CUDA_SUCCESS; });
}

extern "C" CUresult simgpu_cuProfilerStop() {
  return with_driver([] { return CUDA_SUCCESS; });
}

}  // namespace simgpu
