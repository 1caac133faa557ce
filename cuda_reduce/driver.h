// The CUDA driver API, as much of it as gpuar calls, in declarations of its own: a build without
// the CUDA toolkit recognises device memory too. A test compares each with cuda.h.
//
// The members of Functions bear the names that libcuda.so.1 exports, version suffix included: that
// is the driver's ABI, and a newer driver keeps it.
#pragma once

#include <cstddef>
#include <string>

// The driver's own opaque types.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

namespace gpuar::driver {

using Device = int;
using DevicePointer = unsigned long long;
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;

// The results that gpuar tells apart. Any other value may come too.
enum class Result : int {
  success = 0,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  no_binary_for_gpu = 209,
  invalid_context = 201,
  not_ready = 600,
  illegal_address = 700,
  context_is_destroyed = 709,
};

enum class PointerAttribute : int {
  context = 1,
  memory_type = 2,
  is_managed = 8,
  device_ordinal = 9,
  is_legacy_ipc_capable = 10,
};

struct IpcHandle {
  unsigned char bytes[64];
};

enum class DeviceAttribute : int { multiprocessor_count = 16 };

constexpr unsigned memory_type_host = 1;
constexpr unsigned memory_type_device = 2;
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_disable_timing = 2;
constexpr unsigned mem_host_alloc_portable = 1;
constexpr unsigned ipc_lazy_peer_access = 1;
constexpr int capture_relaxed = 2;
inline Stream legacy_stream() {
  return reinterpret_cast<Stream>(1);
}

struct Uuid {
  char bytes[16];
};

struct Functions {
  Result (*cuDriverGetVersion)(int* version);
  Result (*cuGetErrorName)(Result, const char** name);
  Result (*cuDeviceGet)(Device*, int ordinal);
  Result (*cuDeviceGetName)(char* name, int bytes, Device);
  Result (*cuDeviceGetUuid_v2)(Uuid*, Device);
  Result (*cuDeviceGetPCIBusId)(char* id, int bytes, Device);
  Result (*cuDeviceGetAttribute)(int* value, DeviceAttribute, Device);
  Result (*cuDevicePrimaryCtxRetain)(Context*, Device);
  Result (*cuDevicePrimaryCtxRelease_v2)(Device);
  Result (*cuCtxGetDevice)(Device*);
  Result (*cuCtxPushCurrent_v2)(Context);
  Result (*cuCtxPopCurrent_v2)(Context*);
  Result (*cuThreadExchangeStreamCaptureMode)(int* mode);
  Result (*cuPointerGetAttribute)(void* value, PointerAttribute, DevicePointer);
  Result (*cuPointerGetAttributes)(unsigned count, PointerAttribute*, void** values, DevicePointer);
  Result (*cuMemAlloc_v2)(DevicePointer*, std::size_t bytes);
  Result (*cuMemFree_v2)(DevicePointer);
  Result (*cuIpcGetMemHandle)(IpcHandle*, DevicePointer);
  Result (*cuIpcOpenMemHandle_v2)(DevicePointer*, IpcHandle, unsigned flags);
  Result (*cuIpcCloseMemHandle)(DevicePointer);
  Result (*cuMemHostAlloc)(void**, std::size_t bytes, unsigned flags);
  Result (*cuMemFreeHost)(void*);
  Result (*cuMemcpyAsync)(DevicePointer to, DevicePointer from, std::size_t bytes, Stream);
  Result (*cuStreamCreate)(Stream*, unsigned flags);
  Result (*cuStreamDestroy_v2)(Stream);
  Result (*cuStreamQuery)(Stream);
  Result (*cuStreamSynchronize)(Stream);
  Result (*cuEventCreate)(Event*, unsigned flags);
  Result (*cuEventDestroy_v2)(Event);
  Result (*cuEventRecord)(Event, Stream);
  Result (*cuEventQuery)(Event);
  Result (*cuModuleLoadData)(Module*, const void* image);
  Result (*cuModuleUnload)(Module);
  Result (*cuModuleGetFunction)(Function*, Module, const char* name);
  Result (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, Function, int threads,
                                                        std::size_t shared_bytes);
  Result (*cuLaunchKernel)(Function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, Stream, void** parameters, void** extra);
  // null in drivers before CUDA 12.0 and 12.5
  Result (*cuCtxGetId)(Context, unsigned long long* id);
  Result (*cuCtxRecordEvent)(Context, Event);
};

// The driver that this process has loaded.
class Driver {
 public:
  // Takes hold of libcuda.so.1 if the process has loaded it; never loads it.
  static Driver find();

  bool found() const { return handle_ != nullptr; }
  bool usable() const { return found() && trouble_.empty(); }
  const Functions& call() const { return functions_; }
  // Whether it takes this address for a device's: what even a driver that is too old can tell.
  bool says_device(const void* pointer) const;
  // "CUDA driver 13.0 (/usr/lib/…/libcuda.so.1)", or what is wrong with it.
  std::string describe() const;
  // Does without the functions that an older driver lacks, for tests.
  void drop_optional();
  // "CUDA_ERROR_OUT_OF_MEMORY"
  std::string name_of(Result result) const;

 private:
  void* handle_ = nullptr;  // kept: the driver is never unloaded under gpuar
  std::string path_;
  std::string trouble_;
  Functions functions_{};
};

}  // namespace gpuar::driver
