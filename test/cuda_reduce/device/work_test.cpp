// Copies, batches, pools and failures on a device.
#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <numeric>

#include "cuda_reduce/kernel_table.h"
#include "test/cuda_reduce/device/driver.h"

using device::Kind;
using gpuar::Cuda;
using gpuar::Gpu;
using gpuar::GpuReduction;
using gpuar::Status;

namespace {

// A Cuda with the Gpu of one buffer.
struct Use {
  explicit Use(gpuar::CudaOptions options = device::options()) : cuda(options) {
    gpu = cuda.memory_of(memory.data()).gpu;
    REQUIRE(gpu != nullptr);
  }
  device::Context context;
  Cuda cuda;
  device::Memory memory{Kind::device, 1 << 20};
  Gpu* gpu = nullptr;
};

// out[i] = a[i] + b[i] of `count` floats.
GpuReduction sum_of(void* out, const void* a, const void* b, std::size_t count) {
  GpuReduction sum;
  sum.out = out;
  sum.inputs[0] = a;
  sum.inputs[1] = b;
  sum.count = count;
  return sum;
}

std::vector<unsigned char> counted(std::size_t bytes) {
  std::vector<unsigned char> pattern(bytes);
  std::iota(pattern.begin(), pattern.end(), static_cast<unsigned char>(1));
  return pattern;
}

void need_kernels() {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(Kind::device, 64);
  if (!device::gpu_of(cuda, memory).can_reduce(GPUAR_SUM, GPUAR_FLOAT32))
    FAIL("this build has no kernels");
}

}  // namespace

TEST_CASE("a copy that is reported done has its data in place", "[device][data]") {
  Use use;
  const device::Memory other(Kind::device, 1 << 20), pinned(Kind::pinned, 1 << 20),
      host(Kind::host, 1 << 20), managed(Kind::managed, 1 << 20);
  const auto pattern = counted(1 << 20);
  for (int round = 0; round < 5; ++round) {
    for (const auto& [from, to] :
         {std::pair<const device::Memory*, const device::Memory*>{&pinned, &use.memory},
          {&use.memory, &pinned},
          {&use.memory, &other},
          {&host, &use.memory},
          {&use.memory, &host},
          {&managed, &use.memory},
          {&use.memory, &managed},
          {&pinned, &host}}) {
      from->upload(pattern.data());
      to->upload(std::vector<unsigned char>(1 << 20).data());
      device::Op op;
      REQUIRE(use.gpu->copy(to->data() + 3, from->data() + 3, 70001, op) == Status::in_progress);
      CHECK(op.ends == 0);
      device::drain(use.cuda);
      CHECK(op.status == Status::ok);
      CHECK(op.ends == 1);
      const auto got = to->download();
      CHECK(std::equal(got.begin() + 3, got.begin() + 3 + 70001, pattern.begin() + 3));
      CHECK((got[2] == 0 && got[70004] == 0));
    }
  }
  device::Op op;
  CHECK(use.gpu->copy(pinned.data(), use.memory.data(), 0, op) == Status::ok);
}

TEST_CASE("a copy is under way before anything is polled", "[device][data]") {
  Use use;
  const device::Memory pinned(Kind::pinned, 64);
  pinned.upload(counted(64).data());
  device::Op op;
  REQUIRE(use.gpu->copy(use.memory.data(), pinned.data(), 64, op) == Status::in_progress);
  device::check(DRIVER_CALL(cuCtxSynchronize)());
  auto got = use.memory.download();
  got.resize(64);
  CHECK(got == counted(64));
  device::drain(use.cuda);
}

TEST_CASE("a reduction that is reported done has its result in place", "[device][data]") {
  need_kernels();
  Use use;
  constexpr std::size_t count = 40000;
  const device::Memory pinned(Kind::pinned, count * 4), out(Kind::device, count * 4);
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5F);
  for (int round = 0; round < 5; ++round) {
    pinned.upload(values.data());
    out.upload(std::vector<float>(count).data());
    device::Op op;
    // pinned memory is the device's too
    REQUIRE(use.gpu->reduce(sum_of(out.data(), pinned.data(), pinned.data(), count), op) ==
            Status::in_progress);
    device::drain(use.cuda);
    CHECK(op.status == Status::ok);
    const auto got = out.download();
    std::vector<float> expected(values);
    for (float& value : expected) value += value;
    CHECK(std::memcmp(got.data(), expected.data(), got.size()) == 0);
  }
}

TEST_CASE("copy_now waits", "[device][data]") {
  Use use;
  const device::Memory pinned(Kind::pinned, 4096), host(Kind::host, 4096);
  const auto pattern = counted(4096);
  for (int round = 0; round < 5; ++round) {
    pinned.upload(pattern.data());
    CHECK(use.cuda.copy_now(use.memory.data(), pinned.data(), 4096) == Status::ok);
    pinned.upload(std::vector<unsigned char>(4096).data());
    CHECK(use.cuda.copy_now(pinned.data(), use.memory.data(), 4096) == Status::ok);
    CHECK(pinned.download() == pattern);
    CHECK(use.cuda.copy_now(host.data(), pinned.data(), 4096) == Status::ok);
    CHECK(host.download() == pattern);
  }
  CHECK(use.cuda.copies() == 10);  // host to host is none
}

TEST_CASE("all reductions of one kind that are ready go out in one launch", "[device][batch]") {
  need_kernels();
  Use use;
  auto* base = use.memory.data();
  const auto run = [&](std::size_t reductions, gpuar_op second_op, gpuar_type second_type) {
    std::deque<device::Op> ops(reductions);
    const auto launches = use.cuda.launches();
    const auto driver_launches = device::counter("cuLaunchKernel");
    for (std::size_t i = 0; i < reductions; ++i) {
      GpuReduction sum = sum_of(base + i * 4096, base + i * 4096, base + (i + 1) * 4096, 256);
      if (i % 2 == 1) {
        sum.op = second_op;
        sum.type = second_type;
      }
      REQUIRE(use.gpu->reduce(sum, ops[i]) == Status::in_progress);
    }
    CHECK(use.cuda.launches() == launches);
    CHECK(use.cuda.in_flight() == reductions);
    device::drain(use.cuda);
    for (const device::Op& op : ops) CHECK((op.status == Status::ok && op.ends == 1));
    if (device::is_simulated())
      CHECK(device::counter("cuLaunchKernel") - driver_launches == use.cuda.launches() - launches);
    return use.cuda.launches() - launches;
  };
  constexpr std::size_t capacity = gpuar::kernel::Batch::capacity;
  CHECK(run(1, GPUAR_SUM, GPUAR_FLOAT32) == 1);
  CHECK(run(capacity, GPUAR_SUM, GPUAR_FLOAT32) == 1);
  CHECK(run(capacity + 1, GPUAR_SUM, GPUAR_FLOAT32) == 2);
  CHECK(run(20, GPUAR_MAX, GPUAR_FLOAT32) == 2);
  CHECK(run(20, GPUAR_BAND, GPUAR_INT32) == 2);
}

TEST_CASE("one event for all that was started between two polls", "[device][batch]") {
  Use use;
  if (!device::is_simulated()) return;
  const device::Memory pinned(Kind::pinned, 4096);
  const auto run = [&] {
    std::array<device::Op, 8> ops;
    const auto records = device::counter("cuEventRecord");
    for (device::Op& op : ops)
      REQUIRE(use.gpu->copy(use.memory.data(), pinned.data(), 64, op) == Status::in_progress);
    device::drain(use.cuda);
    return device::counter("cuEventRecord") - records;
  };
  CHECK(run() == 1);
  const auto made = device::counter("cuEventCreate") + device::counter("cuStreamCreate");
  for (int round = 0; round < 100; ++round) CHECK(run() == 1);
  CHECK(device::counter("cuEventCreate") + device::counter("cuStreamCreate") == made);
}

TEST_CASE("operations may be started from `done`", "[device][batch]") {
  Use use;
  struct Chain : gpuar::GpuOp {
    Use* use = nullptr;
    int left = 10;
    static void next(void* self, Status status) {
      auto& chain = *static_cast<Chain*>(self);
      CHECK(status == Status::ok);
      if (--chain.left > 0)
        CHECK(chain.use->gpu->copy(chain.use->memory.data(), chain.use->memory.data() + 512, 64,
                                   chain) == Status::in_progress);
    }
  } chain;
  chain.use = &use;
  chain.owner = &chain;
  chain.done = Chain::next;
  REQUIRE(use.gpu->copy(use.memory.data(), use.memory.data() + 512, 64, chain) ==
          Status::in_progress);
  device::drain(use.cuda);
  CHECK(chain.left == 0);
}

TEST_CASE("work that the program queued is waited for", "[device][data]") {
  Use use;
  CUstream blocking = nullptr, own = nullptr;
  device::check(DRIVER_CALL(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT));
  device::check(DRIVER_CALL(cuStreamCreate)(&own, CU_STREAM_NON_BLOCKING));
  const char* fault = std::getenv("GPUAR_TEST_FAULT");
  const bool all_streams = device::find<void*>("cuCtxRecordEvent") != nullptr &&
                           (fault == nullptr || fault != std::string("old_driver"));
  const device::Memory pinned(Kind::pinned, 1 << 20);
  for (int round = 0; round < 10; ++round) {
    const CUstream stream = round % 2 == 1 && all_streams ? own : blocking;
    device::check(
        DRIVER_CALL(cuMemcpyHtoDAsync)(use.memory.address(), pinned.data(), 1 << 20, stream));
    device::Op op;
    REQUIRE(use.gpu->after_queued_work(op) == Status::in_progress);
    device::drain(use.cuda);
    CHECK(op.status == Status::ok);
    CHECK(DRIVER_CALL(cuStreamQuery)(stream) == CUDA_SUCCESS);
  }
  DRIVER_CALL(cuStreamDestroy)(blocking);
  DRIVER_CALL(cuStreamDestroy)(own);
}

TEST_CASE("scratch is reused and does not grow", "[device][pool]") {
  Use use;
  std::vector<std::byte*> first;
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::byte*> blocks;
    for (const std::size_t bytes : {1, 256, 257, 5000, 100000}) {
      blocks.push_back(use.gpu->take(bytes));
      blocks.push_back(use.cuda.take_pinned(bytes));
      REQUIRE(blocks.back() != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(blocks.front()) % 256 == 0);
    }
    for (std::size_t i = 0; const std::size_t bytes : {1, 256, 257, 5000, 100000}) {
      use.gpu->give(blocks[i++], bytes);
      use.cuda.give_pinned(blocks[i++], bytes);
    }
    std::sort(blocks.begin(), blocks.end());
    CHECK(std::unique(blocks.begin(), blocks.end()) == blocks.end());
    if (round == 0) first = blocks;
    if (blocks != first) FAIL("round " << round << " has other blocks than the first");
  }
  const gpuar::Memory scratch = use.cuda.memory_of(use.gpu->take(64));
  CHECK(scratch.kind == gpuar::MemoryKind::device);
  CHECK(scratch.exportable);
  CHECK(use.cuda.memory_of(use.cuda.take_pinned(64)).kind == gpuar::MemoryKind::pinned);
}

TEST_CASE("pools are bounded and give back on request", "[device][pool]") {
  auto options = device::options();
  options.pool_bound = 1 << 20;
  options.pinned_bound = 1 << 20;
  Use use(options);
  const auto free_bytes = [] {
    std::size_t free = 0, total = 0;
    device::check(DRIVER_CALL(cuMemGetInfo)(&free, &total));
    return free;
  };
  const std::size_t before = free_bytes();
  std::vector<std::byte*> blocks(16);
  for (auto& block : blocks) REQUIRE((block = use.gpu->take(1 << 18)) != nullptr);
  for (auto* block : blocks) use.gpu->give(block, 1 << 18);
  CHECK(before - free_bytes() <= (1 << 20) + (2 << 20));  // a driver hands out 2 MiB at a time
  use.cuda.release_pools();
  CHECK(before <= free_bytes() + (2 << 20));

  std::vector<std::byte*> pinned;
  while (std::byte* block = use.cuda.take_pinned(1 << 18)) pinned.push_back(block);
  CHECK(pinned.size() == 4);
  CHECK(use.cuda.take_pinned(std::size_t{1} << 60) == nullptr);
  for (auto* block : pinned) use.cuda.give_pinned(block, 1 << 18);
  std::byte* whole = use.cuda.take_pinned(1 << 20);  // idle blocks make room
  CHECK(whole != nullptr);
  CHECK(use.cuda.take_pinned(1) == nullptr);
}

TEST_CASE("whoever registers memory is told of each block, and of its end",
          "[device][pool][reset]") {
  struct Told {
    std::map<void*, std::pair<std::size_t, gpuar::MemoryKind>> blocks;
  } told;
  auto options = device::options();
  options.pool_bound = 0;
  options.blocks = {
      &told,
      [](void* self, void* block, std::size_t bytes, gpuar::MemoryKind kind) {
        static_cast<Told*>(self)->blocks[block] = {bytes, kind};
      },
      [](void* self, void* block) { CHECK(static_cast<Told*>(self)->blocks.erase(block) == 1); }};
  device::Context context;
  Cuda cuda(options);
  CUdeviceptr memory = 0;
  device::check(DRIVER_CALL(cuMemAlloc)(&memory, 4096));
  Gpu* gpu = cuda.memory_of(reinterpret_cast<void*>(memory)).gpu;
  REQUIRE(gpu != nullptr);
  std::byte* scratch = gpu->take(100000);
  std::byte* pinned = cuda.take_pinned(5000);
  CHECK(told.blocks.at(scratch) == std::pair{std::size_t{131072}, gpuar::MemoryKind::device});
  CHECK(told.blocks.at(pinned) == std::pair{std::size_t{8192}, gpuar::MemoryKind::pinned});
  gpu->give(scratch, 100000);  // beyond the bound: freed
  CHECK(told.blocks.count(scratch) == 0);
  REQUIRE(gpu->take(512) != nullptr);
  context.reset();
  CHECK(gpu->take(512) == nullptr);  // finds out that all are gone
  CHECK(told.blocks.empty());
}

TEST_CASE("a device without memory left", "[device][failure]") {
  Use use;
  std::byte* idle = use.gpu->take(1 << 16);
  REQUIRE(idle != nullptr);
  const device::Failing none_left("cuMemAlloc:1+,cuMemHostAlloc:1+");
  use.gpu->give(idle, 1 << 16);
  CHECK(use.gpu->take(1 << 20) == nullptr);
  CHECK(use.cuda.take_pinned(1 << 20) == nullptr);
  CHECK(device::lines().empty());  // the caller does without
}

TEST_CASE("failures end the operation and say where", "[device][failure]") {
  Use use;
  const device::Memory pinned(Kind::pinned, 4096);
  const auto mentions = [](const char* what) {
    return device::lines().size() == 1 && device::lines()[0].find(what) != std::string::npos;
  };
  device::Op op;
  SECTION("a copy that cannot start") {
    const device::Failing failing("cuMemcpyAsync:1+");
    CHECK(use.gpu->copy(use.memory.data(), pinned.data(), 64, op) == Status::failed);
    CHECK(use.gpu->copy(use.memory.data(), pinned.data(), 64, op) == Status::failed);
    CHECK(op.ends == 0);
    CHECK(mentions("CUDA_ERROR_UNKNOWN"));
    CHECK(mentions(use.gpu->name().c_str()));
  }
  SECTION("a launch") {
    need_kernels();
    const device::Failing failing("cuLaunchKernel:1");
    REQUIRE(use.gpu->reduce(sum_of(use.memory.data(), use.memory.data(), use.memory.data(), 4),
                            op) == Status::in_progress);
    device::drain(use.cuda);
    CHECK(op.status == Status::failed);
    CHECK(mentions("launch"));
  }
  SECTION("an event") {
    const device::Failing failing("cuEventRecord:1");
    REQUIRE(use.gpu->copy(use.memory.data(), pinned.data(), 64, op) == Status::in_progress);
    device::drain(use.cuda);
    CHECK(op.status == Status::failed);
    CHECK(mentions("event"));
  }
  SECTION("a stream") {
    const device::Failing failing("cuStreamCreate:1");
    CHECK(use.gpu->copy(use.memory.data(), pinned.data(), 64, op) == Status::failed);
    CHECK(mentions("stream"));
  }
  SECTION("a kernel that runs") {
    need_kernels();
    const device::Failing failing("kernel:1");
    REQUIRE(use.gpu->reduce(sum_of(use.memory.data(), use.memory.data(), use.memory.data(), 4),
                            op) == Status::in_progress);
    device::drain(use.cuda);
    CHECK(op.status == Status::failed);
    CHECK(op.ends == 1);
    CHECK(mentions(use.gpu->name().c_str()));
  }
}

TEST_CASE("where the driver gives no handle there is no sample", "[device][failure]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(Kind::device, 4096);
  const device::Failing failing("cuIpcGetMemHandle:1+");
  gpuar::Gpu& gpu = device::gpu_of(cuda, memory);
  CHECK_FALSE(gpu.exports());
  CHECK(gpu.sample() == nullptr);
}

TEST_CASE("a driver that has shut down is not touched again", "[device][failure]") {
  Use use;
  device::Op copy, reduction;
  CHECK(use.gpu->take(64) != nullptr);
  CHECK(use.cuda.take_pinned(64) != nullptr);
  REQUIRE(use.gpu->copy(use.memory.data(), use.memory.data() + 64, 64, copy) ==
          Status::in_progress);
  REQUIRE(use.gpu->reduce(sum_of(use.memory.data() + 128, use.memory.data(), use.memory.data(), 4),
                          reduction) == Status::in_progress);
  constexpr const char* releases[] = {"cuMemFree_v2", "cuMemFreeHost", "cuStreamDestroy_v2",
                                      "cuEventDestroy_v2", "cuModuleUnload"};
  unsigned long long before = 0, after = 0;
  for (const char* release : releases) before += device::counter(release);
  const device::Failing gone("cuPointerGetAttributes:1+:4,cuCtxGetId:1+:4,cuCtxPushCurrent:1+:4");
  CHECK(use.cuda.memory_of(use.memory.data()).kind == gpuar::MemoryKind::host);
  device::drain(use.cuda);
  CHECK(copy.status == Status::failed);
  CHECK(reduction.status == Status::failed);
  CHECK(device::lines().size() == 1);
  use.cuda.close();
  for (const char* release : releases) after += device::counter(release);
  CHECK(after == before);
}

TEST_CASE("kernels that cannot be loaded leave the reduction to the host", "[device][failure]") {
  need_kernels();
  const char* rule = GENERATE("cuModuleLoadData:1", "cuModuleGetFunction:1");
  Use use;
  const device::Failing failing(rule);
  device::Op op;
  for (int round = 0; round < 3; ++round)
    CHECK(use.gpu->reduce(sum_of(use.memory.data(), use.memory.data(), use.memory.data(), 4), op) ==
          Status::unsupported);
  CHECK(device::lines().size() == 1);
  CHECK(use.cuda.in_flight() == 0);
}
