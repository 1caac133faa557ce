// gpuar's declarations of the CUDA driver agree with cuda.h.
#include <cuda.h>

#include <cstring>
#include <set>
#include <string>
#include <type_traits>

#include "cuda_reduce/driver.h"
#include "test/catch.h"

namespace driver = gpuar::driver;

namespace {

// Two types that one register or stack slot passes alike: the same, or pointers, or an enumeration
// or number for another of its size.
template <class A, class B>
constexpr bool alike = std::is_same_v<A, B> || (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                       (sizeof(A) == sizeof(B) &&
                        (std::is_enum_v<A> || std::is_integral_v<A>)&&(std::is_enum_v<B> ||
                                                                       std::is_integral_v<B>));
template <>
constexpr bool alike<driver::IpcHandle, CUipcMemHandle> =
    sizeof(driver::IpcHandle) == sizeof(CUipcMemHandle);  // 64 bytes in memory, each of them

template <class Ours, class Theirs>
struct Agree : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Agree<R (*)(A...), S (*)(B...)>
    : std::bool_constant<(alike<R, S> && ... && alike<A, B>)> {
};

// Pointers to opaque types must be to the same one.
static_assert(std::is_same_v<driver::Context, CUcontext>);
static_assert(std::is_same_v<driver::Stream, CUstream>);
static_assert(std::is_same_v<driver::Event, CUevent>);
static_assert(std::is_same_v<driver::Module, CUmodule>);
static_assert(std::is_same_v<driver::Function, CUfunction>);
static_assert(std::is_same_v<driver::Device, CUdevice>);
static_assert(std::is_same_v<driver::DevicePointer, CUdeviceptr>);
static_assert(sizeof(driver::Uuid) == sizeof(CUuuid));

#define AGREES(function)                                                                    \
  static_assert(Agree<decltype(driver::Functions::function), decltype(&::function)>::value, \
                #function)
AGREES(cuDriverGetVersion);
AGREES(cuGetErrorName);
AGREES(cuDeviceGet);
AGREES(cuDeviceGetName);
AGREES(cuDeviceGetPCIBusId);
AGREES(cuDeviceGetAttribute);
AGREES(cuDevicePrimaryCtxRetain);
AGREES(cuDevicePrimaryCtxRelease_v2);
AGREES(cuCtxPushCurrent_v2);
AGREES(cuCtxPopCurrent_v2);
static_assert(sizeof(CUstreamCaptureMode) == sizeof(int));
AGREES(cuThreadExchangeStreamCaptureMode);
AGREES(cuPointerGetAttribute);
AGREES(cuPointerGetAttributes);
AGREES(cuMemAlloc_v2);
AGREES(cuMemFree_v2);
static_assert(sizeof(driver::IpcHandle) == sizeof(CUipcMemHandle));
AGREES(cuIpcGetMemHandle);
static_assert(  // cuda.h declares it under the plain name, which it defines as this one
    Agree<decltype(driver::Functions::cuIpcOpenMemHandle_v2),
          decltype(&cuIpcOpenMemHandle)>::value);
AGREES(cuIpcCloseMemHandle);
AGREES(cuMemHostAlloc);
AGREES(cuMemFreeHost);
AGREES(cuMemcpyAsync);
AGREES(cuStreamCreate);
AGREES(cuStreamDestroy_v2);
AGREES(cuStreamQuery);
AGREES(cuStreamSynchronize);
AGREES(cuEventCreate);
AGREES(cuEventDestroy_v2);
AGREES(cuEventRecord);
AGREES(cuEventQuery);
AGREES(cuModuleLoadData);
AGREES(cuModuleUnload);
AGREES(cuModuleGetFunction);
AGREES(cuOccupancyMaxActiveBlocksPerMultiprocessor);
AGREES(cuLaunchKernel);
#if CUDA_VERSION >= 12000
AGREES(cuCtxGetId);
#endif
#if CUDA_VERSION >= 12050
AGREES(cuCtxRecordEvent);
#endif
#if CUDA_VERSION < 13000
AGREES(cuDeviceGetUuid_v2);
#else  // cuda.h 13 declares it under the plain name, which it defines as this one
static_assert(
    Agree<decltype(driver::Functions::cuDeviceGetUuid_v2), decltype(&cuDeviceGetUuid)>::value);
#endif

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}
using driver::DeviceAttribute;
using driver::PointerAttribute;
using driver::Result;
static_assert(same(Result::success, CUDA_SUCCESS));
static_assert(same(Result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(same(Result::not_initialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(same(Result::deinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(same(Result::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(same(Result::invalid_context, CUDA_ERROR_INVALID_CONTEXT));
static_assert(same(Result::not_ready, CUDA_ERROR_NOT_READY));
static_assert(same(Result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(same(Result::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED));
static_assert(same(PointerAttribute::context, CU_POINTER_ATTRIBUTE_CONTEXT));
static_assert(same(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
static_assert(same(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED));
static_assert(same(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
static_assert(same(PointerAttribute::is_legacy_ipc_capable,
                   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
static_assert(same(DeviceAttribute::multiprocessor_count,
                   CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(driver::capture_relaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(driver::memory_type_host == CU_MEMORYTYPE_HOST);
static_assert(driver::memory_type_device == CU_MEMORYTYPE_DEVICE);
static_assert(driver::ipc_lazy_peer_access == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(driver::stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(driver::event_disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(driver::mem_host_alloc_portable == CU_MEMHOSTALLOC_PORTABLE);

}  // namespace

TEST_CASE("the driver is not loaded, only found", "[driver]") {
  CHECK(driver::legacy_stream() == CU_STREAM_LEGACY);
  const driver::Driver none = driver::Driver::find();
  CHECK_FALSE(none.found());
  CHECK(none.describe().find("no CUDA") == 0);
}
