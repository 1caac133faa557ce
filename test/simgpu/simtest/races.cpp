// Programs for ThreadSanitizer: races ROLE. It reports each that leaves out what CUDA requires, and
// none of the others.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace {

constexpr size_t kBytes = 1 << 12;

void require(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  printf("%s: %d\n", call, static_cast<int>(result));
  exit(3);
}
#define REQUIRE(call) require(call, #call)

struct Setting {
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  float *from = nullptr, *to = nullptr;  // pinned
  CUstream first = nullptr, second = nullptr;
  CUevent event = nullptr;

  Setting() {
    REQUIRE(cuInit(0));
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0));
    REQUIRE(cuCtxSetCurrent(context));
    REQUIRE(cuMemAlloc(&memory, kBytes));
    REQUIRE(cuMemHostAlloc(reinterpret_cast<void**>(&from), kBytes, 0));
    REQUIRE(cuMemHostAlloc(reinterpret_cast<void**>(&to), kBytes, 0));
    REQUIRE(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    REQUIRE(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (size_t i = 0; i < kBytes / sizeof(float); i++) from[i] = static_cast<float>(i);
  }

  void copy_in() const { REQUIRE(cuMemcpyHtoDAsync(memory, from, kBytes, first)); }
  void copy_out(CUstream stream) const { REQUIRE(cuMemcpyDtoHAsync(to, memory, kBytes, stream)); }
  void hand_over() const {
    REQUIRE(cuEventRecord(event, first));
    REQUIRE(cuStreamWaitEvent(second, event, 0));
  }
  void poll() const {
    REQUIRE(cuEventRecord(event, second));
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
    }
  }
  float read() const { return to[77]; }

  // memory += memory, on the second stream.
  void launch() const {
    std::ifstream file(SIMTEST_FATBIN, std::ios::binary);
    std::string image{std::istreambuf_iterator<char>(file), {}};
    if (image.empty()) image = "placeholder";
    CUmodule module = nullptr;
    CUfunction kernel = nullptr;
    REQUIRE(cuModuleLoadData(&module, image.data()));
    REQUIRE(cuModuleGetFunction(&kernel, module, "simtest_sum_f32"));
    CUdeviceptr address = memory;
    size_t length = kBytes / sizeof(float);
    void* parameters[] = {&address, &address, &length};
    REQUIRE(cuLaunchKernel(kernel, 2, 1, 1, 32, 1, 1, 0, second, parameters, nullptr));
  }
};

}  // namespace

int main(int count, char** arguments) {
  const std::string role = count > 1 ? arguments[1] : "";
  const Setting s;
  s.copy_in();
  if (role == "ordered") {
    s.hand_over();
    s.copy_out(s.second);
    s.poll();
  } else if (role == "ordered-kernel") {
    s.hand_over();
    s.launch();
    s.copy_out(s.second);
    REQUIRE(cuStreamSynchronize(s.second));
  } else if (role == "no-wait") {  // the second stream does not wait for the first
    REQUIRE(cuEventRecord(s.event, s.first));
    s.copy_out(s.second);
    s.poll();
  } else if (role == "no-wait-kernel") {
    s.launch();
    s.copy_out(s.second);
    s.poll();
  } else if (role == "no-sync") {  // the host reads what may not have arrived
    s.copy_out(s.first);
  } else if (role == "early-write") {  // the host writes what may not have been read
    s.from[5] = 1;
    s.copy_out(s.first);
    REQUIRE(cuStreamSynchronize(s.first));
  } else {
    return 2;
  }
  printf("%g\n", static_cast<double>(s.read()));
  REQUIRE(cuCtxSynchronize());
  return 0;
}
