#include <cmath>
#include <numeric>

#include "support.h"

using simtest::Device;
using simtest::DeviceMemory;
using simtest::Kernels;
using simtest::says;

namespace {

CUresult sum(CUfunction kernel, CUdeviceptr to, CUdeviceptr from, size_t length) {
  void* parameters[] = {&to, &from, &length};
  return cuLaunchKernel(kernel, 4, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr);
}

template <class T>
std::vector<T> numbers(size_t length) {
  std::vector<T> values(length);
  for (size_t i = 0; i < length; i++) values[i] = static_cast<T>(i % 1000);
  return values;
}

// Sums at an offset of so many elements, and leaves the others alone.
template <class T>
void check_sum(const char* name, size_t length, size_t offset) {
  const Kernels kernels;
  const std::vector<T> values = numbers<T>(length + offset + 10);
  const DeviceMemory to(values), from(values);
  SUCCEEDS(sum(kernels.find(name), to.address + offset * sizeof(T),
               from.address + offset * sizeof(T), length));
  std::vector<T> expected = values;
  for (size_t i = offset; i < offset + length; i++) expected[i] += values[i];
  CHECK(to.read<T>() == expected);
}

struct Batch {
  CUdeviceptr from[500] = {};
  CUdeviceptr to = 0;
  int count = 0;
  size_t n = 0;
};

}  // namespace

TEST_CASE("kernels run by name, at any alignment and length") {
  const Device device;
  for (const size_t offset : {0, 1, 2, 4})
    for (const size_t length : {0, 1, 5, 1000, 4099}) {
      check_sum<float>("simtest_sum_f32", length, offset);
      check_sum<double>("simtest_sum_f64", length, offset);
      check_sum<int>("simtest_sum_i32", length, offset);
    }
}

TEST_CASE("half and bfloat16 are summed") {
  const Device device;
  const Kernels kernels;
  // 1.5 and 2.25 in either format
  for (const auto& [name, a, b, expected] :
       {std::tuple{"simtest_sum_f16", 0x3E00, 0x4080, 0x4380},
        std::tuple{"simtest_sum_bf16", 0x3FC0, 0x4010, 0x4070}}) {
    const DeviceMemory to(std::vector<uint16_t>(101, static_cast<uint16_t>(a)));
    const DeviceMemory from(std::vector<uint16_t>(101, static_cast<uint16_t>(b)));
    SUCCEEDS(sum(kernels.find(name), to.address, from.address, 101));
    CHECK(to.read<uint16_t>() == std::vector<uint16_t>(101, static_cast<uint16_t>(expected)));
  }
}

TEST_CASE("addresses in a struct of 4 KB are found") {
  const Device device;
  const Kernels kernels;
  const std::vector<float> values = numbers<float>(1000);
  const DeviceMemory to(values), a(values), b(values);
  Batch batch;
  batch.from[0] = a.address;
  batch.from[1] = b.address;
  batch.to = to.address;
  batch.count = 2;
  batch.n = 1000;
  void* parameters[] = {&batch};
  SUCCEEDS(cuLaunchKernel(kernels.find("simtest_batch"), 2, 1, 1, 64, 1, 1, 0, nullptr, parameters,
                          nullptr));
  batch = {};  // parameters are copied at the launch
  std::vector<float> expected = values;
  for (float& value : expected) value *= 3;
  CHECK(to.read<float>() == expected);
}

TEST_CASE("a kernel that does not exist is not found") {
  const Device device;
  const Kernels kernels;
  CUfunction function = nullptr;
  RETURNS(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, kernels.module, "simtest_none"));
}

TEST_CASE("kernel arguments that no device can use are refused") {
  if (!simtest::simulator()) return;  // a real device finds out later, and its context is lost
  const Device device;
  const Kernels kernels;
  const CUfunction kernel = kernels.find("simtest_sum_f32");
  const DeviceMemory memory(4000);
  CUdeviceptr freed = 0;
  {
    const DeviceMemory other(4000);
    freed = other.address;
  }
  RETURNS(CUDA_ERROR_INVALID_VALUE, sum(kernel, memory.address, freed, 10));
  std::vector<float> pageable(1000);
  RETURNS(CUDA_ERROR_INVALID_VALUE,
          sum(kernel, memory.address, reinterpret_cast<CUdeviceptr>(pageable.data()), 10));
  void* pinned = nullptr;
  SUCCEEDS(cuMemHostAlloc(&pinned, 4000, 0));
  SUCCEEDS(sum(kernel, memory.address, reinterpret_cast<CUdeviceptr>(pinned), 10));
  SUCCEEDS(cuMemFreeHost(pinned));
}

TEST_CASE("what a kernel writes past an allocation is noticed when that is freed") {
  if (!simtest::simulator()) return;
  says(simtest::run_role({"overrun"}), "bytes past the end of 4000 bytes");
  CHECK(simtest::run_role({"overrun"}, {{"SIMGPU_STRICT", "1"}}).status == 128 + 6);
}

TEST_CASE("a grid that no device has is refused") {
  const Device device;
  const Kernels kernels;
  const CUfunction kernel = kernels.find("simtest_sum_f32");
  const DeviceMemory memory(4000);
  CUdeviceptr address = memory.address;
  size_t length = 10;
  void* parameters[] = {&address, &address, &length};
  RETURNS(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  RETURNS(CUDA_ERROR_INVALID_VALUE,
          cuLaunchKernel(kernel, 1, 1, 1, 1025, 1, 1, 0, nullptr, parameters, nullptr));
}

TEST_CASE("calls and copies are counted, by caller") {
  const auto& simulator = simtest::simulator();
  if (!simulator) return;
  const Device device;
  const Kernels kernels;
  const DeviceMemory a(numbers<float>(1000)), b(numbers<float>(1000));
  const CUfunction kernel = kernels.find("simtest_sum_f32");
  simulator.reset_counters();
  SUCCEEDS(sum(kernel, a.address, b.address, 1000));
  SUCCEEDS(sum(kernel, a.address, b.address, 1000));
  (void)a.read<float>();
  SUCCEEDS(cuMemcpyDtoDAsync(a.address, b.address, 8, nullptr));
  CHECK(simulator.counter("launches") == 2);
  CHECK(simulator.counter("cuLaunchKernel") == 2);
  CHECK(simulator.counter("cuLaunchKernel@simtest") == 2);
  CHECK(simulator.counter("cuLaunchKernel@mca_coll_gpuar") == 0);
  CHECK(simulator.counter("copies_h2d") == 0);
  CHECK(simulator.counter("copies_d2h") == 1);
  CHECK(simulator.counter("copies_d2h@simtest") == 1);
  CHECK(simulator.counter("bytes_d2h") == 4000);
  CHECK(simulator.counter("copies_d2d") == 1);
  CHECK(simulator.counter("bytes_d2d@simtest") == 8);
}

TEST_CASE("failures are injected") {
  const auto& simulator = simtest::simulator();
  if (!simulator) return;
  const Device device;
  CUdeviceptr address = 0;
  CHECK(simulator.fail("nonsense") == -1);
  REQUIRE(simulator.fail("cuMemAlloc:2,cuMemFree@some_other:1") == 0);
  SUCCEEDS(cuMemAlloc(&address, 100));
  SUCCEEDS(cuMemFree(address));
  RETURNS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, 100));
  SUCCEEDS(cuMemAlloc(&address, 100));
  SUCCEEDS(cuMemFree(address));
  REQUIRE(simulator.fail("cuMemAlloc_v2@simtest:1+:999") == 0);
  RETURNS(CUDA_ERROR_UNKNOWN, cuMemAlloc(&address, 100));
  RETURNS(CUDA_ERROR_UNKNOWN, cuMemAlloc(&address, 100));
  simulator.fail(nullptr);
  SUCCEEDS(cuMemAlloc(&address, 100));
  SUCCEEDS(cuMemFree(address));
}

TEST_CASE("a kernel that fails takes its context along") {
  const auto& simulator = simtest::simulator();
  if (!simulator) return;
  const Device device;
  const Kernels kernels;
  const CUfunction kernel = kernels.find("simtest_sum_f32");
  {
    const DeviceMemory memory(4000);
    REQUIRE(simulator.fail("kernel:2") == 0);
    SUCCEEDS(sum(kernel, memory.address, memory.address, 10));
    SUCCEEDS(cuStreamSynchronize(nullptr));
    SUCCEEDS(sum(kernel, memory.address, memory.address, 10));
    RETURNS(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(nullptr));
    RETURNS(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
  }
  simulator.fail(nullptr);
  SUCCEEDS(cuDevicePrimaryCtxReset(0));
  CUcontext again = nullptr;
  SUCCEEDS(cuDevicePrimaryCtxRetain(&again, 0));
  SUCCEEDS(cuCtxSynchronize());
}
