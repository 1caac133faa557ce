// What takes processes of their own: switches, memory of others, the end of a process.
#include <dlfcn.h>
#include <unistd.h>

#include <numeric>

#include "support.h"

using simtest::Device;
using simtest::DeviceMemory;
using simtest::run_role;
using simtest::says;

namespace {

std::string hex(const CUipcMemHandle& handle) {
  std::string text;
  for (const char byte : handle.reserved) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

}  // namespace

TEST_CASE("another process opens device memory, reads and writes it") {
  const Device device;
  std::vector<int> values(1024);
  std::iota(values.begin(), values.end(), 0);
  const DeviceMemory memory(values);
  SUCCEEDS(cuCtxSynchronize());
  CUipcMemHandle handle;
  SUCCEEDS(cuIpcGetMemHandle(&handle, memory.address));
  const simtest::Ended ended = run_role({"import", hex(handle)});
  INFO(ended.output);
  REQUIRE(ended.status == 0);
  for (int& value : values) value = -value;
  CHECK(memory.read<int>() == values);
  CUdeviceptr own = 0;
  CHECK(cuIpcOpenMemHandle(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
}

TEST_CASE("a function is found by name and version") {
  const Device device;
  const auto find = [](const char* name, int version) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult result;
    cuGetProcAddress(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &result);
    CHECK((function != nullptr) == (result == CU_GET_PROC_ADDRESS_SUCCESS));
    return function;
  };
  const auto exported = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  CHECK(find("cuNothing", 13000) == nullptr);
  REQUIRE(find("cuMemAlloc", 12000) != nullptr);
  if (!simtest::simulator()) return;  // a real driver need not give what it exports
  CHECK(find("cuMemAlloc", 12000) == exported("cuMemAlloc_v2"));
  CHECK(find("cuInit", 12000) == exported("cuInit"));
  CHECK(find("cuCtxGetDevice", 12000) == exported("cuCtxGetDevice"));
  CHECK(find("cuCtxGetDevice", 13000) == exported("cuCtxGetDevice_v2"));
  CHECK(find("cuEventElapsedTime", 12000) == exported("cuEventElapsedTime"));
}

TEST_CASE("memory of other processes is refused on request") {
  if (!simtest::simulator()) return;
  const Device device;
  const DeviceMemory memory(std::vector<int>(1024));
  CUipcMemHandle handle;
  SUCCEEDS(cuIpcGetMemHandle(&handle, memory.address));
  says(run_role({"import", hex(handle)}, {{"SIMGPU_IPC", "open"}}),
       "cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS): "
       "CUDA_ERROR_NOT_SUPPORTED");
  says(run_role({"devices"}, {{"SIMGPU_IPC", "0"}}), "ipc CUDA_ERROR_NOT_SUPPORTED");
}

TEST_CASE("each process may see other devices, which keep their UUID") {
  if (!simtest::simulator()) return;
  const auto both = run_role({"devices"}, {{"SIMGPU_DEVICES", "2"}});
  says(both, "device 0 53494d475055");
  says(both, "bus 0000:41:00.0");
  says(both, "peers 1");
  const size_t second = both.output.find("device 1 ");
  REQUIRE(second != std::string::npos);
  const std::string uuid = both.output.substr(second + 9, 32);
  const auto one = run_role({"devices"}, {{"SIMGPU_DEVICES", "2"}, {"CUDA_VISIBLE_DEVICES", "1"}});
  says(one, "device 0 " + uuid);
  CHECK(one.output.find("device 1") == std::string::npos);
  says(run_role({"devices"}, {{"SIMGPU_DEVICES", "2"}, {"SIMGPU_PEER", "0"}}), "peers 0");
  says(run_role({"devices"}, {{"CUDA_VISIBLE_DEVICES", ""}}), "CUDA_ERROR_NO_DEVICE");
  const auto elsewhere = run_role({"devices"}, {{"SIMGPU_UUID_BASE", "other"}});
  CHECK(elsewhere.output.find("device 0 53494d475055") != std::string::npos);
  CHECK(elsewhere.output.find(both.output.substr(9, 32)) == std::string::npos);
}

TEST_CASE("contexts, streams and memory of two devices are kept apart") {
  if (!simtest::simulator()) return;
  const auto with = run_role({"two-devices"}, {{"SIMGPU_DEVICES", "2"}});
  INFO(with.output);
  CHECK(with.status == 0);
  const auto without = run_role({"two-devices"}, {{"SIMGPU_DEVICES", "2"}, {"SIMGPU_PEER", "0"}});
  says(without, "cuCtxEnablePeerAccess(second, 0): CUDA_ERROR_PEER_ACCESS_UNSUPPORTED");
}

TEST_CASE("what is left behind fails the process in strict mode") {
  if (!simtest::simulator()) return;
  CHECK(run_role({"tidy"}, {{"SIMGPU_STRICT", "1"}}).status == 0);
  const auto left = run_role({"leave"}, {{"SIMGPU_STRICT", "1"}});
  CHECK(left.status == 70);
  says(left, "1234 bytes of device memory of roles");
  says(left, "a stream of roles");
  says(left, "an event of roles");
  says(left, "a retained primary context of roles");
  CHECK(run_role({"leave"}, {{"SIMGPU_STRICT", "roles"}}).status == 70);
  CHECK(run_role({"leave"}, {{"SIMGPU_STRICT", "mca_coll_gpuar"}}).status == 0);
  CHECK(run_role({"leave"}).status == 0);
}

TEST_CASE("gaps and misuse abort in strict mode") {
  if (!simtest::simulator()) return;
  const auto gap = run_role({"gap"});
  CHECK(gap.status == 0);
  says(gap, "cuGraphCreate is not simulated (called by roles)");
  CHECK(run_role({"gap"}, {{"SIMGPU_STRICT", "1"}}).status == 128 + 6);
  CHECK(run_role({"gap"}, {{"SIMGPU_STRICT", "libucs"}}).status == 0);
  CHECK(run_role({"dangling"}, {{"SIMGPU_STRICT", "1"}}).status == 128 + 6);
  CHECK(run_role({"dangling"}).status == 0);
}

TEST_CASE("after the destructors of its users the driver is gone") {
  if (!simtest::simulator()) return;
  says(run_role({"late"}), "late: CUDA_SUCCESS");
}

TEST_CASE("failures are injected from the environment") {
  if (!simtest::simulator()) return;
  says(run_role({"tidy"}, {{"SIMGPU_FAIL", "cuInit:1:804"}}), "cuInit(0): 804");
  says(run_role({"tidy"}, {{"SIMGPU_FAIL", "cuStreamCreate:1:2"}}),
       "cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING): CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_CASE("results do not depend on how operations run") {
  if (!simtest::simulator()) return;
  CHECK(run_role({"order"}, {{"SIMGPU_INLINE", "1"}}).status == 0);
  for (const char* seed : {"1", "2", "3"})
    CHECK(run_role({"order"}, {{"SIMGPU_DELAY_US", "2000"}, {"SIMGPU_SEED", seed}}).status == 0);
}

TEST_CASE("a missing event goes wrong when operations are delayed") {
  if (!simtest::simulator()) return;
  CHECK(run_role({"disorder"}, {{"SIMGPU_DELAY_US", "3000"}}).status == 1);
}

TEST_CASE("ThreadSanitizer sees each missing order, and nothing else") {
  if (!simtest::simulator()) return;
  if (access((simtest::folder() + "races").c_str(), X_OK) != 0) {
    WARN("the compiler has no ThreadSanitizer");
    return;
  }
  const std::string kernels = simtest::folder() + "libraces_kernels.so";
  const auto reported = [&](const char* role) {
    const simtest::Ended ended = simtest::run_program(
        "races", {role},
        {{"TSAN_OPTIONS", "exitcode=66:handle_segv=0"}, {"SIMGPU_KERNELS", kernels.c_str()}});
    INFO(role << ": " << ended.output);
    CHECK((ended.status == 0 || ended.status == 66));
    return ended.status == 66;
  };
  CHECK_FALSE(reported("ordered"));
  CHECK_FALSE(reported("ordered-kernel"));
  CHECK(reported("no-wait"));
  CHECK(reported("no-wait-kernel"));
  CHECK(reported("no-sync"));
  CHECK(reported("early-write"));
}
