#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "support.h"

using simtest::Device;
using simtest::DeviceMemory;

namespace {

constexpr size_t kBytes = size_t{1} << 18;

class Stream {
 public:
  Stream() { SUCCEEDS(cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING)); }
  ~Stream() { cuStreamDestroy(handle); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  CUstream handle = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    SUCCEEDS(cuEventCreate(&handle, flags));
  }
  ~Event() { cuEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  CUevent handle = nullptr;
};

class Pinned {
 public:
  Pinned() {
    void* memory = nullptr;
    SUCCEEDS(cuMemHostAlloc(&memory, kBytes, 0));
    bytes = static_cast<unsigned char*>(memory);
  }
  ~Pinned() { cuMemFreeHost(bytes); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  void fill(int seed) const {
    for (size_t i = 0; i < kBytes; i++)
      bytes[i] = static_cast<unsigned char>(i * 31 + static_cast<size_t>(seed));
  }
  unsigned char* bytes = nullptr;
};

void CUDA_CB set_flag(void* flag) {
  *static_cast<std::atomic<bool>*>(flag) = true;
}

void CUDA_CB wait_for_flag(void* flag) {
  while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
}

void CUDA_CB call_driver(void* result) {
  size_t free = 0, total = 0;
  *static_cast<CUresult*>(result) = cuMemGetInfo(&free, &total);
}

}  // namespace

TEST_CASE("an event orders two streams") {
  const Device device;
  const DeviceMemory memory(kBytes);
  const Pinned from, to;
  const Stream first, second;
  const Event event;
  for (int round = 0; round < 20; round++) {
    from.fill(round);
    SUCCEEDS(cuMemcpyHtoDAsync(memory.address, from.bytes, kBytes, first.handle));
    SUCCEEDS(cuEventRecord(event.handle, first.handle));
    SUCCEEDS(cuStreamWaitEvent(second.handle, event.handle, 0));
    SUCCEEDS(cuMemcpyDtoHAsync(to.bytes, memory.address, kBytes, second.handle));
    SUCCEEDS(cuStreamSynchronize(second.handle));
    REQUIRE(memcmp(from.bytes, to.bytes, kBytes) == 0);
  }
}

TEST_CASE("work is unfinished until it is finished") {
  const Device device;
  const Stream stream;
  const Event event;
  SUCCEEDS(cuEventQuery(event.handle));
  std::atomic<bool> go{false};
  SUCCEEDS(cuLaunchHostFunc(stream.handle, wait_for_flag, &go));
  SUCCEEDS(cuEventRecord(event.handle, stream.handle));
  RETURNS(CUDA_ERROR_NOT_READY, cuEventQuery(event.handle));
  RETURNS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream.handle));
  go = true;
  SUCCEEDS(cuEventSynchronize(event.handle));
  SUCCEEDS(cuEventQuery(event.handle));
  SUCCEEDS(cuStreamSynchronize(stream.handle));
  SUCCEEDS(cuStreamQuery(stream.handle));
}

TEST_CASE("the legacy default stream waits for blocking streams alone") {
  const Device device;
  CUstream blocking = nullptr;
  SUCCEEDS(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  const Stream independent;
  std::atomic<bool> go{false}, reached{false};
  SUCCEEDS(cuLaunchHostFunc(independent.handle, wait_for_flag, &go));
  SUCCEEDS(cuLaunchHostFunc(nullptr, set_flag, &reached));
  SUCCEEDS(cuStreamSynchronize(nullptr));
  CHECK(reached);
  reached = false;
  SUCCEEDS(cuLaunchHostFunc(nullptr, set_flag, &reached));
  std::atomic<bool> order{false};
  SUCCEEDS(cuLaunchHostFunc(blocking, set_flag, &order));
  SUCCEEDS(cuStreamSynchronize(blocking));
  CHECK(reached);
  go = true;
  SUCCEEDS(cuStreamDestroy(blocking));
  SUCCEEDS(cuCtxSynchronize());
}

TEST_CASE("an event of a context follows all its work") {
  const Device device;
  const Stream first, second;
  const Event event;
  std::atomic<bool> go{false}, done{false};
  SUCCEEDS(cuLaunchHostFunc(first.handle, wait_for_flag, &go));
  SUCCEEDS(cuLaunchHostFunc(first.handle, set_flag, &done));
  const CUresult recorded = cuCtxRecordEvent(device.context, event.handle);
  if (recorded != CUDA_SUCCESS) WARN("cuCtxRecordEvent: " << simtest::error_name(recorded));
  if (recorded == CUDA_SUCCESS) RETURNS(CUDA_ERROR_NOT_READY, cuEventQuery(event.handle));
  go = true;
  SUCCEEDS(cuEventSynchronize(event.handle));
  if (recorded == CUDA_SUCCESS) CHECK(done);
  SUCCEEDS(cuCtxSynchronize());
}

TEST_CASE("events tell the time between them") {
  const Device device;
  const Stream stream;
  const Event begin(CU_EVENT_DEFAULT), end(CU_EVENT_DEFAULT), without;
  SUCCEEDS(cuEventRecord(begin.handle, stream.handle));
  SUCCEEDS(cuEventRecord(end.handle, stream.handle));
  SUCCEEDS(cuEventRecord(without.handle, stream.handle));
  SUCCEEDS(cuStreamSynchronize(stream.handle));
  float milliseconds = -1;
  SUCCEEDS(cuEventElapsedTime(&milliseconds, begin.handle, end.handle));
  CHECK(milliseconds >= 0);
  RETURNS(CUDA_ERROR_INVALID_HANDLE,
          cuEventElapsedTime(&milliseconds, begin.handle, without.handle));
}

TEST_CASE("pageable memory is read before the call returns") {
  const Device device;
  const Stream stream;
  const DeviceMemory memory(4096);
  std::vector<char> host(4096, 1);
  SUCCEEDS(cuMemcpyHtoDAsync(memory.address, host.data(), host.size(), stream.handle));
  std::fill(host.begin(), host.end(), 2);
  SUCCEEDS(cuStreamSynchronize(stream.handle));
  CHECK(memory.read<char>() == std::vector<char>(4096, 1));
}

TEST_CASE("a destroyed stream does what it has, and freeing waits for it") {
  const Device device;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  SUCCEEDS(cuMemAlloc(&memory, kBytes));
  SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::atomic<bool> go{false}, done{false};
  SUCCEEDS(cuLaunchHostFunc(stream, wait_for_flag, &go));
  SUCCEEDS(cuMemsetD8Async(memory, 1, kBytes, stream));
  SUCCEEDS(cuLaunchHostFunc(stream, set_flag, &done));
  SUCCEEDS(cuStreamDestroy(stream));
  CHECK(!done);
  go = true;
  SUCCEEDS(cuMemFree(memory));
  CHECK(done);
}

TEST_CASE("a context that is not current, or gone, is an error") {
  const Device device;
  size_t free = 0, total = 0;
  std::thread([&] { RETURNS(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo(&free, &total)); }).join();
  SUCCEEDS(cuCtxPushCurrent(device.context));
  CUcontext popped = nullptr;
  SUCCEEDS(cuCtxPopCurrent(&popped));
  CHECK(popped == device.context);
  SUCCEEDS(cuMemGetInfo(&free, &total));
}

TEST_CASE("a primary context that is reset is destroyed until it is retained") {
  if (!simtest::simulator()) return;  // a real driver may crash at stale handles
  const Device device;
  CUdeviceptr address = 0;
  SUCCEEDS(cuMemAlloc(&address, 100));
  CUstream stream = nullptr;
  SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SUCCEEDS(cuDevicePrimaryCtxReset(0));
  RETURNS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamQuery(stream));
  unsigned flags = 0;
  int active = 1;
  SUCCEEDS(cuDevicePrimaryCtxGetState(0, &flags, &active));
  CHECK(active == 0);
  CUcontext again = nullptr;
  SUCCEEDS(cuDevicePrimaryCtxRetain(&again, 0));
  CHECK(again == device.context);
  RETURNS(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemFree(address));
}

TEST_CASE("stale handles are refused") {
  if (!simtest::simulator()) return;
  const Device device;
  CUstream stream = nullptr;
  SUCCEEDS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SUCCEEDS(cuStreamDestroy(stream));
  RETURNS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
  CUevent event = nullptr;
  SUCCEEDS(cuEventCreate(&event, 0));
  SUCCEEDS(cuEventDestroy(event));
  RETURNS(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
}

TEST_CASE("a host function must not call the driver") {
  const Device device;
  const Stream stream;
  CUresult result = CUDA_SUCCESS;
  SUCCEEDS(cuLaunchHostFunc(stream.handle, call_driver, &result));
  SUCCEEDS(cuStreamSynchronize(stream.handle));
  RETURNS(CUDA_ERROR_NOT_PERMITTED, result);
}
