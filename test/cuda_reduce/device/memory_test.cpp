// Kinds of memory, contexts, and the life of a Gpu.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "test/cuda_reduce/device/driver.h"

using device::Kind;
using gpuar::Cuda;
using gpuar::MemoryKind;
using gpuar::Status;

// Runs by itself, before anything has loaded a driver.
TEST_CASE("a program without CUDA never loads the driver", "[.][presence]") {
  Cuda cuda(device::options());
  REQUIRE(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
  int local = 0;
  CHECK_FALSE(cuda.present());
  CHECK(cuda.memory_of(&local).kind == MemoryKind::host);
  CHECK(cuda.take_pinned(64) == nullptr);
  CHECK(cuda.poll() == 0);
  int other = 1;
  CHECK(cuda.copy_now(&local, &other, sizeof local) == Status::ok);
  CHECK(local == 1);
  CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
  CHECK(cuda.state().find("no CUDA") == 0);

  REQUIRE(device::library() != nullptr);
  CHECK(cuda.present());
  CHECK(cuda.state().find("CUDA driver") == 0);
  CHECK(cuda.memory_of(&local).kind == MemoryKind::host);  // loaded, not initialised
  const device::Context context;
  const device::Memory memory(Kind::device, 64);
  CHECK(cuda.memory_of(memory.data()).kind == MemoryKind::device);
}

// Runs by itself, on a library that is a driver of long ago.
TEST_CASE("a driver that is too old is no driver", "[.][too_old]") {
  Cuda cuda(device::options());
  REQUIRE(device::library() != nullptr);
  int local = 0;
  CHECK(cuda.present());
  CHECK(cuda.memory_of(&local).kind == MemoryKind::host);
  // What such a driver calls a device's must not be read by the host.
  CHECK(is_out_of_reach(cuda.memory_of(reinterpret_cast<const void*>(std::uintptr_t{1} << 20))));
  CHECK(cuda.take_pinned(64) == nullptr);
  const Cuda::Current current(cuda);
  cuda.release_pools();
  CHECK(cuda.state().find("CUDA driver 9.1 (") == 0);
  CHECK(cuda.state().find("is too old: it lacks cuGetErrorName") != std::string::npos);
  CHECK(device::lines().empty());
}

TEST_CASE("the driver's word on every kind of memory", "[device][memory]") {
  const device::Context context;
  Cuda cuda(device::options());
  int local = 0;
  CHECK(cuda.memory_of(&local).kind == MemoryKind::host);
  CHECK(cuda.memory_of(nullptr).kind == MemoryKind::host);

  struct Expected {
    Kind kind;
    MemoryKind memory;
    bool exportable;
  };
  for (const Expected& expected : {Expected{Kind::host, MemoryKind::host, true},
                                   {Kind::pinned, MemoryKind::pinned, true},
                                   {Kind::device, MemoryKind::device, true},
                                   {Kind::managed, MemoryKind::managed, false},
                                   {Kind::pool, MemoryKind::device, false}}) {
    const device::Memory memory(expected.kind, 4096);
    for (const std::size_t at : {0, 1, 4095}) {
      CAPTURE(static_cast<int>(expected.kind), at);
      const gpuar::Memory found = cuda.memory_of(memory.data() + at);
      CHECK(found.kind == expected.memory);
      CHECK(found.exportable == expected.exportable);
      const bool on_gpu = found.kind == MemoryKind::device || found.kind == MemoryKind::managed;
      CHECK((found.gpu != nullptr) == on_gpu);
      if (on_gpu) CHECK(found.gpu == cuda.memory_of(memory.data()).gpu);
    }
  }
}

TEST_CASE("registered host memory is pinned, as long as it is registered", "[device][memory]") {
  const device::Context context;
  Cuda cuda(device::options());
  alignas(4096) static std::array<std::byte, 8192> memory;
  CHECK(cuda.memory_of(memory.data() + 5000).kind == MemoryKind::host);
  device::check(DRIVER_CALL(cuMemHostRegister)(memory.data(), memory.size(), 0));
  CHECK(cuda.memory_of(memory.data() + 5000).kind == MemoryKind::pinned);
  device::check(DRIVER_CALL(cuMemHostUnregister)(memory.data()));
  CHECK(cuda.memory_of(memory.data() + 5000).kind == MemoryKind::host);
}

TEST_CASE("a sample for others to open stays, and a refusal is named", "[device][memory]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(Kind::device, 4096);
  gpuar::Gpu& gpu = device::gpu_of(cuda, memory);
  const gpuar::IpcSample* const sample = gpu.sample();
  REQUIRE(sample != nullptr);
  const auto frees = device::counter("cuMemFree_v2");
  cuda.release_pools();
  CHECK(device::counter("cuMemFree_v2") == frees);
  CHECK(gpu.sample() == sample);
  // No process opens its own; and nobody what is no sample.
  CHECK(gpu.refusal_of(*sample).find("CUDA_ERROR_") == 0);
  CHECK(gpu.refusal_of({}).find("CUDA_ERROR_") == 0);
  CHECK(device::current_context() == context.get());
  CHECK(device::lines().empty());
}

TEST_CASE("freed memory is asked about anew", "[device][memory]") {
  const device::Context context;
  Cuda cuda(device::options());
  const void* address = nullptr;
  {
    const device::Memory memory(Kind::device, 4096);
    address = memory.data();
    CHECK(cuda.memory_of(address).kind == MemoryKind::device);
  }
  CHECK(cuda.memory_of(address).kind == MemoryKind::host);
}

TEST_CASE("the caller's context stays what it was", "[device][context]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory one(Kind::device, 4096), two(Kind::pool, 4096), pinned(Kind::pinned, 4096);
  const auto use_everything = [&] {
    for (const device::Memory* memory : {&one, &two}) {
      gpuar::Gpu& gpu = device::gpu_of(cuda, *memory);
      std::array<device::Op, 3> ops;
      CHECK(gpu.copy(memory->data(), pinned.data(), 4096, ops[0]) == Status::in_progress);
      gpuar::GpuReduction sum;
      sum.inputs[0] = sum.inputs[1] = sum.out = memory->data();
      sum.count = 4;
      CHECK(gpu.reduce(sum, ops[1]) ==
            (gpu.can_reduce(sum.op, sum.type) ? Status::in_progress : Status::unsupported));
      CHECK(gpu.after_queued_work(ops[2]) == Status::in_progress);
      device::drain(cuda);
      gpu.give(gpu.take(1000), 1000);
    }
    cuda.give_pinned(cuda.take_pinned(1000), 1000);
    CHECK(cuda.copy_now(one.data(), pinned.data(), 64) == Status::ok);
    cuda.release_pools();
  };

  SECTION("a context") {
    use_everything();
    CHECK(device::current_context() == context.get());
    cuda.close();
    CHECK(device::current_context() == context.get());
  }
  SECTION("the device of the current context is named by its bus id") {
    char bus[32] = "";
    CUdevice device = 0;
    device::check(DRIVER_CALL(cuCtxGetDevice)(&device));
    device::check(DRIVER_CALL(cuDeviceGetPCIBusId)(bus, sizeof bus - 1, device));
    CHECK(cuda.current_device() == bus);
    std::string elsewhere = "unknown";
    std::thread([&] { elsewhere = cuda.current_device(); }).join();
    CHECK(elsewhere.empty());
    CHECK(device::current_context() == context.get());
  }
  SECTION("another thread, without one") {
    CUcontext before = context.get(), after = context.get(), closed = context.get();
    std::thread([&] {
      before = device::current_context();
      use_everything();
      after = device::current_context();
      cuda.close();
      closed = device::current_context();
    }).join();
    CHECK(before == nullptr);
    CHECK(after == nullptr);
    CHECK(closed == nullptr);
  }
  SECTION("one that is lent for a while") {
    cuda.memory_of(one.data());
    std::thread([&] {
      {
        const Cuda::Current current(cuda);
        CHECK(device::current_context() == context.get());
      }
      CHECK(device::current_context() == nullptr);
    }).join();
  }
}

// The driver would otherwise refuse gpuar's calls while any thread captures a graph.
TEST_CASE("the thread's capture mode is relaxed for each use and put back", "[device][context]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(Kind::device, 4096);
  gpuar::Gpu& gpu = device::gpu_of(cuda, memory);
  if (!device::is_simulated()) return;
  const auto exchanges = device::counter("cuThreadExchangeStreamCaptureMode");
  device::Op op;
  REQUIRE(gpu.copy(memory.data(), memory.data() + 64, 64, op) == Status::in_progress);
  CHECK(device::counter("cuThreadExchangeStreamCaptureMode") == exchanges + 2);
  device::drain(cuda);
}

TEST_CASE("each device has a Gpu of its own", "[.][two_devices]") {
  const device::Context first(0), second(1);  // the second is current
  Cuda cuda(device::options());
  CUcontext popped = nullptr;
  const device::Memory on_second(Kind::device, 4096), pooled(Kind::pool, 4096);
  device::check(DRIVER_CALL(cuCtxPushCurrent)(first.get()));
  const device::Memory on_first(Kind::device, 4096);
  device::check(DRIVER_CALL(cuCtxPopCurrent)(&popped));

  gpuar::Gpu* a = cuda.memory_of(on_first.data()).gpu;
  gpuar::Gpu* b = cuda.memory_of(on_second.data()).gpu;
  REQUIRE(a != nullptr);
  REQUIRE(b != nullptr);
  CHECK(a != b);
  CHECK(cuda.memory_of(pooled.data()).gpu == b);
  CHECK(a->name() != b->name());
  CHECK(a->name().find("(GPU-") != std::string::npos);

  const std::vector<unsigned char> pattern(4096, 0x5a);
  on_first.upload(pattern.data());
  device::Op there, back;
  REQUIRE(b->copy(on_second.data(), on_first.data(), 4096, there) == Status::in_progress);
  REQUIRE(a->copy(on_first.data(), on_first.data() + 2048, 2048, back) == Status::in_progress);
  device::drain(cuda);
  CHECK(there.status == Status::ok);
  CHECK(back.status == Status::ok);
  CHECK(on_second.download() == pattern);
  CHECK(device::current_context() == second.get());
}

TEST_CASE("a reset device: what was under way fails, what comes after works", "[device][reset]") {
  device::Context context;
  Cuda cuda(device::options());
  gpuar::Gpu* before = nullptr;
  device::Op op, waiting;
  device::Memory host(Kind::host, 4096);
  {
    CUdeviceptr memory = 0;
    device::check(DRIVER_CALL(cuMemAlloc)(&memory, 4096));
    before = cuda.memory_of(reinterpret_cast<void*>(memory)).gpu;
    REQUIRE(before != nullptr);
    std::byte* scratch = before->take(512);
    std::byte* pinned = cuda.take_pinned(512);
    REQUIRE(before->copy(reinterpret_cast<void*>(memory), pinned, 512, op) == Status::in_progress);
    REQUIRE(before->after_queued_work(waiting) == Status::in_progress);
    context.reset();
    device::drain(cuda);
    before->give(scratch, 512);
    cuda.give_pinned(pinned, 512);
  }
  CHECK(op.status == Status::failed);
  CHECK(waiting.status == Status::failed);
  CHECK(op.ends == 1);
  CHECK(device::lines().size() == 1);
  CHECK(before->take(512) == nullptr);
  CHECK(before->sample() == nullptr);
  CHECK(before->copy(host.data(), host.data(), 8, op) == Status::failed);

  const device::Context again;
  const device::Memory memory(Kind::device, 4096);
  gpuar::Gpu* after = cuda.memory_of(memory.data()).gpu;
  REQUIRE(after != nullptr);
  CHECK(after != before);
  CHECK(after->take(512) != nullptr);
  CHECK(cuda.copy_now(memory.data(), host.data(), 64) == Status::ok);
}

// An old driver is not asked for the ids of contexts.
TEST_CASE("where the driver does not answer, what the host reads is the host's",
          "[device][memory][context_id]") {
  const device::Context context;
  Cuda cuda(device::options());
  if (!device::is_simulated()) return;
  const device::Memory memory(Kind::device, 4096);
  const device::Memory pool(Kind::pool, 4096);
  int local = 0;
  for (const char* rules : {"cuPointerGetAttributes:1+", "cuCtxGetId:1+"}) {
    INFO(rules);
    const device::Failing failing(rules);
    CHECK_FALSE(gpuar::is_out_of_reach(cuda.memory_of(&local)));
    CHECK(cuda.memory_of(&local).kind == MemoryKind::host);
    CHECK(gpuar::is_out_of_reach(cuda.memory_of(memory.data())));
    CHECK(gpuar::is_out_of_reach(cuda.memory_of(pool.data())));
    CHECK(cuda.copy_now(&local, memory.data(), sizeof local) == Status::failed);
  }
  CHECK_FALSE(gpuar::is_out_of_reach(cuda.memory_of(memory.data())));
}

TEST_CASE("a forked child touches nothing", "[device][fork]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(Kind::device, 4096);
  gpuar::Gpu* gpu = cuda.memory_of(memory.data()).gpu;
  REQUIRE(gpu != nullptr);
  std::byte* block = gpu->take(64);
  device::Op op;
  REQUIRE(gpu->copy(block, memory.data(), 64, op) == Status::in_progress);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const auto pops = device::counter("cuCtxPopCurrent_v2");
    const auto frees = device::counter("cuMemFree_v2");
    const bool host = cuda.memory_of(memory.data()).kind == MemoryKind::host;
    cuda.launch();
    const bool idle = cuda.poll() == 0;
    cuda.release_pools();
    cuda.close();
    const bool untouched =
        device::counter("cuCtxPopCurrent_v2") == pops && device::counter("cuMemFree_v2") == frees;
    _exit(host && idle && untouched ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  device::drain(cuda);
  CHECK(op.status == Status::ok);
}
