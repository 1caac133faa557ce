#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <numeric>

#include "support.h"

using simtest::Device;
using simtest::DeviceMemory;

namespace {

template <class Value>
Value attribute(CUpointer_attribute what, CUdeviceptr address) {
  Value value{};
  SUCCEEDS(cuPointerGetAttribute(&value, what, address));
  return value;
}

unsigned type_of(CUdeviceptr address) {
  return attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
}

// The signal that ended a child which ran `body`; 0: none.
template <class Body>
int signal_of_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

std::vector<int> numbers(size_t length) {
  std::vector<int> values(length);
  std::iota(values.begin(), values.end(), 7);
  return values;
}

CUmemAllocationProp on_device() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  return properties;
}

}  // namespace

TEST_CASE("what is copied to a device and back is the same") {
  const Device device;
  for (const size_t length : {1, 1000, 300000}) {
    const std::vector<int> values = numbers(length);
    const DeviceMemory memory(values);
    CHECK(memory.read<int>() == values);
  }
}

TEST_CASE("the host cannot touch device memory") {
  const Device device;
  const DeviceMemory memory(numbers(100));
  auto* const address = reinterpret_cast<volatile int*>(memory.address);
  CHECK(signal_of_child([=] { (void)*address; }) == SIGSEGV);
  CHECK(signal_of_child([=] { *address = 1; }) == SIGSEGV);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  errno = 0;
  CHECK(write(ends[1], const_cast<int*>(address), 16) == -1);
  CHECK(errno == EFAULT);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("a forked child has no driver") {
  const Device device;
  const pid_t child = fork();
  if (child == 0) {
    size_t free = 0, total = 0;
    _exit(cuMemGetInfo(&free, &total) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("copies beyond an allocation, and from a freed one, are refused") {
  const Device device;
  std::vector<char> host(8192);
  CUdeviceptr freed = 0;
  {
    const DeviceMemory memory(4096);
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(host.data(), memory.address, 4097));
    RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(memory.address + 4000, host.data(), 97));
    SUCCEEDS(cuMemcpyHtoD(memory.address + 4000, host.data(), 96));
    freed = memory.address;
  }
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(host.data(), freed, 1));
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuMemFree(freed));
}

TEST_CASE("pointer attributes tell the kinds of memory apart") {
  const Device device;
  const DeviceMemory memory(1000);
  CHECK(type_of(memory.address + 999) == CU_MEMORYTYPE_DEVICE);
  CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, memory.address) == device.context);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory.address) == 1);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory.address) == 0);

  CUdeviceptr managed = 0;
  SUCCEEDS(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
  CHECK(type_of(managed) == CU_MEMORYTYPE_DEVICE);
  CHECK(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed) == 1);
  *reinterpret_cast<int*>(managed) = 5;
  int seen = 0;
  SUCCEEDS(cuMemcpyDtoH(&seen, managed, sizeof seen));
  CHECK(seen == 5);
  SUCCEEDS(cuMemFree(managed));

  void* pinned = nullptr;
  SUCCEEDS(cuMemHostAlloc(&pinned, 1000, 0));
  const auto pinned_address = reinterpret_cast<CUdeviceptr>(pinned);
  CHECK(type_of(pinned_address) == CU_MEMORYTYPE_HOST);
  SUCCEEDS(cuMemFreeHost(pinned));

  std::vector<char> host(1 << 20);
  const auto host_address = reinterpret_cast<CUdeviceptr>(host.data());
  unsigned type = 77;
  RETURNS(CUDA_ERROR_INVALID_VALUE,
          cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host_address));
  int managed_flag = 77;
  CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* out[] = {&type, &managed_flag};
  SUCCEEDS(cuPointerGetAttributes(2, what, out, host_address));
  CHECK(type == 0);
  CHECK(managed_flag == 0);

  SUCCEEDS(cuMemHostRegister(host.data(), host.size(), 0));
  CHECK(type_of(host_address + 5) == CU_MEMORYTYPE_HOST);
  RETURNS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          cuMemHostRegister(host.data(), host.size(), 0));
  SUCCEEDS(cuMemHostUnregister(host.data()));
}

TEST_CASE("pool memory has no context and cannot be exported") {
  const Device device;
  CUdeviceptr address = 0;
  SUCCEEDS(cuMemAllocAsync(&address, 5000, nullptr));
  CHECK(type_of(address) == CU_MEMORYTYPE_DEVICE);
  CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address) == nullptr);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) == 0);
  CUmemoryPool pool = nullptr;
  SUCCEEDS(cuDeviceGetDefaultMemPool(&pool, 0));
  CHECK(attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) == pool);
  CUipcMemHandle handle;
  RETURNS(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, address));
  const std::vector<int> values = numbers(1000);
  std::vector<int> back(1000);
  SUCCEEDS(cuMemcpyHtoD(address, values.data(), 4000));
  SUCCEEDS(cuMemcpyDtoH(back.data(), address, 4000));
  CHECK(back == values);
  SUCCEEDS(cuMemFreeAsync(address, nullptr));
  SUCCEEDS(cuStreamSynchronize(nullptr));
}

TEST_CASE("memory can be mapped at reserved addresses") {
  const Device device;
  const CUmemAllocationProp properties = on_device();
  size_t size = 0;
  SUCCEEDS(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr address = 0;
  SUCCEEDS(cuMemAddressReserve(&address, size, 0, 0, 0));
  CUmemGenericAllocationHandle memory = 0;
  SUCCEEDS(cuMemCreate(&memory, size, &properties, 0));
  SUCCEEDS(cuMemMap(address, size, 0, memory, 0));
  SUCCEEDS(cuMemRelease(memory));
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  SUCCEEDS(cuMemSetAccess(address, size, &access, 1));
  const std::vector<int> values = numbers(1000);
  std::vector<int> back(1000);
  SUCCEEDS(cuMemcpyHtoD(address + 8, values.data(), 4000));
  SUCCEEDS(cuMemcpyDtoH(back.data(), address + 8, 4000));
  CHECK(back == values);
  CHECK(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address) == nullptr);
  CHECK(attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) == 0);
  SUCCEEDS(cuMemUnmap(address, size));
  SUCCEEDS(cuMemAddressFree(address, size));
}

TEST_CASE("freed device memory is free again") {
  const Device device;
  size_t before = 0, after = 0, total = 0;
  SUCCEEDS(cuMemGetInfo(&before, &total));
  for (int i = 0; i < 50; i++) {
    const DeviceMemory memory(size_t{1} << 20);
    const DeviceMemory more(100);
  }
  SUCCEEDS(cuMemGetInfo(&after, &total));
  CHECK(before == after);
  CUdeviceptr address = 0;
  RETURNS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, total * 2));
}

TEST_CASE("there may be thousands of allocations") {
  const Device device;
  std::vector<CUdeviceptr> all(3000);
  for (CUdeviceptr& address : all) SUCCEEDS(cuMemAlloc(&address, 16));
  for (const CUdeviceptr address : all) SUCCEEDS(cuMemFree(address));
}

TEST_CASE("fresh memory is not zero") {
  if (!simtest::simulator()) return;
  const Device device;
  const DeviceMemory memory(1000);
  for (const unsigned char byte : memory.read<unsigned char>()) REQUIRE(byte == 0xCB);
}

TEST_CASE("memory is filled") {
  const Device device;
  const DeviceMemory memory(4000);
  SUCCEEDS(cuMemsetD32Async(memory.address, 0x12345678, 1000, nullptr));
  SUCCEEDS(cuMemsetD8Async(memory.address + 4, 0, 4, nullptr));
  SUCCEEDS(cuStreamSynchronize(nullptr));
  const std::vector<unsigned> values = memory.read<unsigned>();
  CHECK(values[0] == 0x12345678);
  CHECK(values[1] == 0);
  CHECK(values[999] == 0x12345678);
}
