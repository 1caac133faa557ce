// Small programs that the tests of the simulator start: roles ROLE [ARGUMENT].
#include <cuda.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

std::string name_of(CUresult result) {
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  return name == nullptr ? std::to_string(result) : name;
}

void require(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  printf("%s: %s\n", call, name_of(result).c_str());
  exit(3);
}
#define REQUIRE(call) require(call, #call)

void start() {
  CUcontext context = nullptr;
  REQUIRE(cuInit(0));
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 0));
  REQUIRE(cuCtxSetCurrent(context));
}

int import(const char* text) {
  CUipcMemHandle handle = {};
  for (size_t i = 0; i < sizeof handle.reserved; i++)
    handle.reserved[i] =
        static_cast<char>(strtol(std::string(text + 2 * i, 2).c_str(), nullptr, 16));
  start();
  CUdeviceptr memory = 0;
  REQUIRE(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  std::vector<int> values(1024);
  REQUIRE(cuMemcpyDtoH(values.data(), memory, 4096));
  for (int i = 0; i < 1024; i++) {
    if (values[static_cast<size_t>(i)] != i) return 4;
    values[static_cast<size_t>(i)] = -i;
  }
  REQUIRE(cuMemcpyHtoD(memory, values.data(), 4096));
  REQUIRE(cuCtxSynchronize());
  CUdeviceptr base = 0;
  size_t size = 0;
  REQUIRE(cuMemGetAddressRange(&base, &size, memory + 100));
  REQUIRE(cuIpcCloseMemHandle(memory));
  return base == memory && size == 4096 ? 0 : 5;
}

int devices() {
  start();
  int count = 0;
  REQUIRE(cuDeviceGetCount(&count));
  for (int i = 0; i < count; i++) {
    CUuuid uuid;
    char bus[20];
    REQUIRE(cuDeviceGetUuid(&uuid, i));
    REQUIRE(cuDeviceGetPCIBusId(bus, sizeof bus, i));
    printf("device %d ", i);
    for (const char byte : uuid.bytes) printf("%02x", static_cast<unsigned char>(byte));
    printf(" bus %s\n", bus);
  }
  int peers = 0;
  if (count > 1) REQUIRE(cuDeviceCanAccessPeer(&peers, 0, 1));
  printf("peers %d\n", peers);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc(&memory, 100));
  CUipcMemHandle handle;
  printf("ipc %s\n", name_of(cuIpcGetMemHandle(&handle, memory)).c_str());
  return 0;
}

int leave() {
  start();
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  REQUIRE(cuMemAlloc(&memory, 1234));
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuEventCreate(&event, 0));
  return 0;
}

int tidy() {
  start();
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  REQUIRE(cuMemAlloc(&memory, 1234));
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuStreamDestroy(stream));
  REQUIRE(cuMemFree(memory));
  REQUIRE(cuDevicePrimaryCtxRelease(0));
  return 0;
}

int gap() {
  start();
  CUgraph graph = nullptr;
  return cuGraphCreate(&graph, 0) == CUDA_ERROR_NOT_SUPPORTED ? 0 : 1;
}

int dangling() {
  start();
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc(&memory, 1234));
  REQUIRE(cuMemFree(memory));
  char host = 0;
  return cuMemcpyDtoH(&host, memory, 1) == CUDA_ERROR_INVALID_VALUE ? 0 : 1;
}

void call_late() {
  int count = 0;
  printf("late: %s\n", name_of(cuDeviceGetCount(&count)).c_str());
}

int late() {
  start();
  atexit(call_late);
  return 0;
}

CUfunction sum_kernel() {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  REQUIRE(cuModuleLoadData(&module, "placeholder"));
  REQUIRE(cuModuleGetFunction(&kernel, module, "simtest_sum_f32"));
  return kernel;
}

CUresult sum(CUfunction kernel, CUdeviceptr to, CUdeviceptr from, size_t length, CUstream stream) {
  void* parameters[] = {&to, &from, &length};
  return cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
}

// A kernel writes within an allocation, then past its end.
int overrun() {
  start();
  CUdeviceptr memory = 0;
  const CUfunction kernel = sum_kernel();
  REQUIRE(cuMemAlloc(&memory, 4000));
  REQUIRE(sum(kernel, memory, memory, 1000, nullptr));
  REQUIRE(sum(kernel, memory + 4000, memory + 4000, 0, nullptr));
  REQUIRE(sum(kernel, memory + 3996, memory + 3996, 3, nullptr));
  REQUIRE(cuMemFree(memory));
  REQUIRE(cuDevicePrimaryCtxRelease(0));
  return 0;
}

int refused(CUresult result, CUresult expected, const char* what) {
  if (result == expected) return 0;
  printf("%s: %s\n", what, name_of(result).c_str());
  return 1;
}

int two_devices() {
  start();
  CUcontext second = nullptr;
  CUdeviceptr here = 0, there = 0;
  CUstream stream = nullptr, other = nullptr;
  CUevent event = nullptr;
  const CUfunction kernel = sum_kernel();
  REQUIRE(cuMemAlloc(&here, 4000));
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuDevicePrimaryCtxRetain(&second, 1));
  REQUIRE(cuCtxPushCurrent(second));
  REQUIRE(cuMemAlloc(&there, 4000));
  REQUIRE(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuEventCreate(&event, 0));
  const auto no_handle = CUDA_ERROR_INVALID_HANDLE;
  int wrong = refused(sum(kernel, there, there, 10, other), no_handle, "kernel of another context");
  wrong += refused(cuEventRecord(event, stream), no_handle, "event of another context");
  REQUIRE(cuCtxPopCurrent(nullptr));
  wrong += refused(sum(kernel, here, here, 10, other), no_handle, "stream of another context");
  wrong += refused(sum(kernel, here, there, 10, stream), CUDA_ERROR_INVALID_VALUE, "no access");
  REQUIRE(cuMemcpyDtoDAsync(here, there, 4000, stream));  // copies need none
  REQUIRE(cuStreamSynchronize(stream));
  REQUIRE(cuCtxEnablePeerAccess(second, 0));
  REQUIRE(sum(kernel, here, there, 10, stream));
  REQUIRE(cuStreamSynchronize(stream));
  return wrong;
}

// A copy there on one stream and back on another; the event between them orders the two.
enum class Ordered { kByEvent, kNot };

int copies(Ordered ordered) {
  constexpr size_t kSize = 1 << 16;
  start();
  CUdeviceptr memory = 0;
  void *from = nullptr, *to = nullptr;
  CUstream there = nullptr, back = nullptr;
  CUevent event = nullptr;
  REQUIRE(cuMemAlloc(&memory, kSize));
  REQUIRE(cuMemHostAlloc(&from, kSize, 0));
  REQUIRE(cuMemHostAlloc(&to, kSize, 0));
  REQUIRE(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuStreamCreate(&back, CU_STREAM_NON_BLOCKING));
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  int wrong = 0;
  for (int round = 1; round <= 40; round++) {
    memset(from, round, kSize);
    REQUIRE(cuMemcpyHtoDAsync(memory, from, kSize, there));
    REQUIRE(cuEventRecord(event, there));
    if (ordered == Ordered::kByEvent) REQUIRE(cuStreamWaitEvent(back, event, 0));
    REQUIRE(cuMemcpyDtoHAsync(to, memory, kSize, back));
    REQUIRE(cuStreamSynchronize(back));
    if (memcmp(from, to, kSize) != 0) wrong++;
    REQUIRE(cuCtxSynchronize());
  }
  printf("%d of 40 went wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string role = count > 1 ? arguments[1] : "";
  if (role == "import" && count > 2) return import(arguments[2]);
  if (role == "devices") return devices();
  if (role == "leave") return leave();
  if (role == "tidy") return tidy();
  if (role == "gap") return gap();
  if (role == "dangling") return dangling();
  if (role == "overrun") return overrun();
  if (role == "two-devices") return two_devices();
  if (role == "late") return late();
  if (role == "order") return copies(Ordered::kByEvent);
  if (role == "disorder") return copies(Ordered::kNot);
  fprintf(stderr, "roles: no such role: %s\n", role.c_str());
  return 2;
}
