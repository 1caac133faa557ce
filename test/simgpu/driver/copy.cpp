// Copies and fills.
#include <cuda.h>

#include <cstring>

#include "context.h"
#include "memory.h"
#include "settings.h"

namespace simgpu {
namespace {

enum class Return { kWhenDone, kAtOnce };

// One end of a copy.
struct Place {
  char* address = nullptr;
  bool pageable = false;
  bool on_device = false;
  bool sync_memops = false;
};

CUresult resolve(uintptr_t address, size_t size, Place& place) {
  const std::optional<Allocation> a = find_allocation(address);
  if (!a) {
    if (in_window(address))
      return misuse(CUDA_ERROR_INVALID_VALUE, "a copy or fill at %p: no allocation is there",
                    reinterpret_cast<void*>(address));
    place = {reinterpret_cast<char*>(address), true, false, false};
    return CUDA_SUCCESS;
  }
  if (a->on_device() && (a->freeing || size > a->size - (address - a->base)))
    return misuse(CUDA_ERROR_INVALID_VALUE, "a copy or fill of %zu bytes at %p: %s", size,
                  reinterpret_cast<void*>(address),
                  a->freeing ? "it is freed already" : "the allocation ends before");
  place = {reinterpret_cast<char*>(alias(*a, address)), false, a->on_device(), a->sync_memops};
  return CUDA_SUCCESS;
}

void tally(const Place& to, const Place& from, size_t size) {
  const Tally copies = to.on_device
                           ? from.on_device ? Tally::kCopiesOnDevice : Tally::kCopiesToDevice
                       : from.on_device ? Tally::kCopiesToHost
                                        : Tally::kCopiesOnHost;
  constexpr auto kToBytes = static_cast<unsigned>(Tally::kBytesToDevice);
  count(copies, 1);
  count(static_cast<Tally>(static_cast<unsigned>(copies) + kToBytes), size);
}

// As in the driver: what comes from pageable memory is staged before the call returns; a copy into
// pageable memory returns when it is done. A synchronous copy on the device, and any fill, returns
// at once unless the context or the memory asks for CU_CTX_SYNC_MEMOPS.
CUresult copy(uintptr_t to_address, uintptr_t from_address, size_t size, Context& context,
              Stream& stream, Return when) {
  if (size == 0) return CUDA_SUCCESS;
  Place to, from;
  CUresult r = resolve(to_address, size, to);
  if (r == CUDA_SUCCESS) r = resolve(from_address, size, from);
  if (r != CUDA_SUCCESS) return r;
  tally(to, from, size);
  CompletionPtr done;
  if (when == Return::kAtOnce && from.pageable && !to.pageable) {
    auto staged = std::make_shared<std::vector<char>>(from.address, from.address + size);
    done = submit(stream, [to, staged] {
      const Shown shown;
      memcpy(to.address, staged->data(), staged->size());
    });
  } else {
    done = submit(stream, [to, from, size] {
      const Shown shown;
      memmove(to.address, from.address, size);
    });
  }
  const bool asked =
      (context.flags & CU_CTX_SYNC_MEMOPS) != 0 || to.sync_memops || from.sync_memops;
  const bool on_device = to.on_device && from.on_device;
  if (when == Return::kWhenDone ? !on_device || asked : to.pageable) done->wait();
  return static_cast<CUresult>(context.failure.load());
}

CUresult copy_now(uintptr_t to, uintptr_t from, size_t size) {
  return with_stream(nullptr, [&](Context& context, Stream& stream) {
    return copy(to, from, size, context, stream, Return::kWhenDone);
  });
}

CUresult copy_on(CUstream handle, uintptr_t to, uintptr_t from, size_t size) {
  return with_stream(handle, [&](Context& context, Stream& stream) {
    return copy(to, from, size, context, stream, Return::kAtOnce);
  });
}

bool device_address(uintptr_t address) {
  return find_allocation(address).has_value();
}

// The named directions require the device's side to be known to the driver, and the host's side
// not to be the device's.
CUresult check(const char* side, uintptr_t device, uintptr_t host) {
  if (state_of_driver() != CUDA_SUCCESS) return CUDA_SUCCESS;  // said by the copy itself
  if (!device_address(device))
    return misuse(CUDA_ERROR_INVALID_VALUE, "copy %s the device: %p is not device memory", side,
                  reinterpret_cast<void*>(device));
  if (in_window(host) && find_allocation(host) && find_allocation(host)->kind != Kind::kManaged)
    return misuse(CUDA_ERROR_INVALID_VALUE, "copy %s the device: %p is not host memory", side,
                  reinterpret_cast<void*>(host));
  return CUDA_SUCCESS;
}

CUresult to_device(uintptr_t to, const void* from, size_t size,
                   CUresult (*run)(CUstream, uintptr_t, uintptr_t, size_t), CUstream stream) {
  const Hidden hidden;
  const auto host = reinterpret_cast<uintptr_t>(from);
  const CUresult r = size == 0 ? CUDA_SUCCESS : check("to", to, host);
  return r != CUDA_SUCCESS ? r : run(stream, to, host, size);
}

CUresult to_host(void* to, uintptr_t from, size_t size,
                 CUresult (*run)(CUstream, uintptr_t, uintptr_t, size_t), CUstream stream) {
  const Hidden hidden;
  const auto host = reinterpret_cast<uintptr_t>(to);
  const CUresult r = size == 0 ? CUDA_SUCCESS : check("from", from, host);
  return r != CUDA_SUCCESS ? r : run(stream, host, from, size);
}

CUresult now(CUstream, uintptr_t to, uintptr_t from, size_t size) {
  return copy_now(to, from, size);
}

template <class Value>
CUresult fill(CUdeviceptr address, Value value, size_t length, CUstream handle, Return when) {
  return with_stream(handle, [&](Context& context, Stream& stream) {
    if (length == 0) return CUDA_SUCCESS;
    if (address % sizeof(Value) != 0) return CUDA_ERROR_INVALID_VALUE;
    Place place;
    const CUresult r = resolve(address, length * sizeof(Value), place);
    if (r != CUDA_SUCCESS) return r;
    if (place.pageable) return CUDA_ERROR_INVALID_VALUE;
    const CompletionPtr done = submit(stream, [=] {
      for (size_t i = 0; i < length; i++)
        memcpy(place.address + i * sizeof(Value), &value, sizeof(Value));
    });
    if (when == Return::kWhenDone &&
        ((context.flags & CU_CTX_SYNC_MEMOPS) != 0 || place.sync_memops))
      done->wait();
    return CUDA_SUCCESS;
  });
}

}  // namespace

ENTRY(cuMemcpy)(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy_now(to, from, size);
}

ENTRY(cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy_on(stream, to, from, size);
}

ENTRY(cuMemcpyHtoD)(CUdeviceptr to, const void* from, size_t size) {
  return to_device(to, from, size, now, nullptr);
}

ENTRY(cuMemcpyHtoDAsync)(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  return to_device(to, from, size, copy_on, stream);
}

ENTRY(cuMemcpyDtoH)(void* to, CUdeviceptr from, size_t size) {
  return to_host(to, from, size, now, nullptr);
}

ENTRY(cuMemcpyDtoHAsync)(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  return to_host(to, from, size, copy_on, stream);
}

ENTRY(cuMemcpyDtoD)(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy_now(to, from, size);
}

ENTRY(cuMemcpyDtoDAsync)(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy_on(stream, to, from, size);
}

ENTRY(cuMemcpyPeer)(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size) {
  return copy_now(to, from, size);
}

ENTRY(cuMemcpyPeerAsync)
(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size, CUstream stream) {
  return copy_on(stream, to, from, size);
}

ENTRY(cuMemsetD8)(CUdeviceptr to, unsigned char value, size_t length) {
  return fill(to, value, length, nullptr, Return::kWhenDone);
}

ENTRY(cuMemsetD16)(CUdeviceptr to, unsigned short value, size_t length) {
  return fill(to, value, length, nullptr, Return::kWhenDone);
}

ENTRY(cuMemsetD32)(CUdeviceptr to, unsigned value, size_t length) {
  return fill(to, value, length, nullptr, Return::kWhenDone);
}

ENTRY(cuMemsetD8Async)(CUdeviceptr to, unsigned char value, size_t length, CUstream stream) {
  return fill(to, value, length, stream, Return::kAtOnce);
}

ENTRY(cuMemsetD16Async)(CUdeviceptr to, unsigned short value, size_t length, CUstream stream) {
  return fill(to, value, length, stream, Return::kAtOnce);
}

ENTRY(cuMemsetD32Async)(CUdeviceptr to, unsigned value, size_t length, CUstream stream) {
  return fill(to, value, length, stream, Return::kAtOnce);
}

}  // namespace simgpu
