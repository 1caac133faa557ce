// The few functions of the CUDA driver that the tools use, found at run time: the tools build
// without CUDA's headers and start on machines without a driver.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

// As the driver's ABI has them.
using CudaResult = int;  // 0: success
using CudaDevice = int;
using CudaAddress = std::uint64_t;
using CudaContext = struct CudaContextTag*;
using CudaStream = struct CudaStreamTag*;

struct CudaDriver {
  CudaResult (*init)(unsigned flags);
  CudaResult (*driver_version)(int* version);
  CudaResult (*error_name)(CudaResult, const char** name);
  CudaResult (*device_count)(int* count);
  CudaResult (*device)(CudaDevice* device, int ordinal);
  CudaResult (*device_name)(char* name, int bytes, CudaDevice device);
  CudaResult (*primary_context)(CudaContext* context, CudaDevice device);
  CudaResult (*set_current)(CudaContext context);
  CudaResult (*synchronize)();
  CudaResult (*allocate)(CudaAddress* address, std::size_t bytes);
  CudaResult (*free)(CudaAddress address);
  CudaResult (*allocate_pinned)(void** address, std::size_t bytes, unsigned flags);
  CudaResult (*free_pinned)(void* address);
  CudaResult (*allocate_managed)(CudaAddress* address, std::size_t bytes, unsigned flags);
  CudaResult (*copy_up)(CudaAddress to, const void* from, std::size_t bytes);
  CudaResult (*copy_down)(void* to, CudaAddress from, std::size_t bytes);
  CudaResult (*copy_across)(CudaAddress to, CudaAddress from, std::size_t bytes, CudaStream stream);
  CudaResult (*create_stream)(CudaStream* stream, unsigned flags);
  CudaResult (*wait_for_stream)(CudaStream stream);
};

// Opens and initialises the driver at the first call. Throws std::runtime_error where there is
// none, or none that can be used.
const CudaDriver& cuda_driver();

// Throws std::runtime_error with `what` and the driver's name of the error, unless it is success.
void check_cuda(CudaResult result, const char* what);

// Makes a GPU of this machine current in the calling thread, until the process ends: number
// `which`, counted round and round. Returns its name.
const char* use_gpu(int which);

}  // namespace bench
