// CUDA as this process sees it: which memory is whose, and which contexts are in use.
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "cuda_reduce/gpu_impl.h"
#include "cuda_reduce/kernel_image.h"

namespace gpuar {

using driver::Result;

namespace {

// How many forks lie between the first process of this program and this one. CUDA does not survive
// a fork: the child must not touch what its parent made.
std::atomic<unsigned> forks{0};

unsigned count_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(registered);
  return forks;
}

// What the driver says about an address. It writes booleans in widths of its own: each has room for
// the widest.
struct Attributes {
  std::uint64_t type = 0;
  std::uint64_t managed = 0;
  driver::Context context = nullptr;
  std::int64_t ordinal = 0;
  std::uint64_t exportable = 0;

  Result ask(const driver::Functions& call, const void* pointer) {
    using driver::PointerAttribute;
    PointerAttribute names[] = {PointerAttribute::memory_type, PointerAttribute::is_managed,
                                PointerAttribute::context, PointerAttribute::device_ordinal,
                                PointerAttribute::is_legacy_ipc_capable};
    void* values[] = {&type, &managed, &context, &ordinal, &exportable};
    return call.cuPointerGetAttributes(std::size(names), names, values, device_pointer(pointer));
  }
  int device() const { return static_cast<std::int32_t>(ordinal); }
};

// What memory is whose place the driver does not tell, since CUDA is in error: what the host can
// read is the host's. The program may well agree on that error by an allreduce on host memory.
Memory without_the_driver(const void* pointer) {
  char byte = 0;
  iovec here{&byte, 1};
  iovec there{const_cast<void*>(pointer), 1};
  const bool readable = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
  if (readable) return {};
  return {MemoryKind::device, false, nullptr};
}

}  // namespace

struct Cuda::Impl {
  Impl(const CudaOptions& options, std::size_t& in_flight, std::uint64_t& launches,
       std::uint64_t& copies)
      : shared(options, in_flight, launches, copies) {}

  bool is_child() const { return count_forks() != made_after_forks; }
  bool usable() const { return shared.driver.usable() && !is_child(); }
  Gpu* gpu_of(driver::Context context, int ordinal);
  Gpu* primary_gpu(int ordinal);
  Gpu* find(driver::Context context);
  Gpu* first_alive();
  std::size_t pinned_bytes() const;

  GpuShared shared;
  std::mutex search;  // of the driver
  unsigned made_after_forks = count_forks();
  std::vector<std::unique_ptr<Gpu>> gpus;  // dead ones too: their callers still name them
};

// The living Gpu of a context.
Gpu* Cuda::Impl::find(driver::Context context) {
  for (const auto& gpu : gpus)
    if (gpu->impl().context == context && gpu->impl().check_alive()) return gpu.get();
  return nullptr;
}

Gpu* Cuda::Impl::gpu_of(driver::Context context, int ordinal) {
  if (Gpu* known = find(context)) return known;
  unsigned long long id = 0;
  if (shared.driver.call().cuCtxGetId != nullptr &&
      shared.driver.call().cuCtxGetId(context, &id) != Result::success)
    return nullptr;
  return gpus
      .emplace_back(
          std::make_unique<Gpu>(std::make_unique<Gpu::Impl>(shared, context, id, ordinal)))
      .get();
}

// Memory from pools belongs to a device, and is used in the device's primary context.
Gpu* Cuda::Impl::primary_gpu(int ordinal) {
  for (const auto& gpu : gpus)
    if (gpu->impl().retained && gpu->impl().ordinal == ordinal && gpu->impl().check_alive())
      return gpu.get();
  const auto& call = shared.driver.call();
  driver::Device device = 0;
  driver::Context context = nullptr;
  if (call.cuDeviceGet(&device, ordinal) != Result::success ||
      call.cuDevicePrimaryCtxRetain(&context, device) != Result::success)
    return nullptr;
  Gpu* gpu = gpu_of(context, ordinal);
  if (gpu == nullptr)
    call.cuDevicePrimaryCtxRelease_v2(device);
  else
    gpu->impl().retained = true;
  return gpu;
}

Gpu* Cuda::Impl::first_alive() {
  for (const auto& gpu : gpus)
    if (gpu->impl().check_alive()) return gpu.get();
  return nullptr;
}

std::size_t Cuda::Impl::pinned_bytes() const {
  std::size_t bytes = 0;
  for (const auto& gpu : gpus) bytes += gpu->impl().pinned.bytes();
  return bytes;
}

Cuda::Cuda(const CudaOptions& options)
    : impl_(std::make_unique<Impl>(options, in_flight_, launches_, copies_)) {
  look_again();
}

Cuda::~Cuda() {
  close();
}

bool Cuda::look_again() noexcept {
  const std::lock_guard lock(impl_->search);
  if (found_) return true;
  // Before the objects count as seen, so that another thread, which has loaded the driver, is not
  // told meanwhile that there is none; and after, for what was loaded during the first search.
  for (const bool again : {false, true}) {
    if (again) objects_.catch_up();
    impl_->shared.driver = driver::Driver::find();
    if (impl_->shared.driver.found()) break;
  }
  if (impl_->shared.fault("old_driver")) impl_->shared.driver.drop_optional();
  found_ = impl_->shared.driver.found();
  if (found_) objects_.stop();
  return found_;
}

Memory Cuda::ask(const void* pointer) {
  if (!impl_->usable()) {
    const bool out_of_reach = !impl_->is_child() && impl_->shared.driver.says_device(pointer);
    return out_of_reach ? Memory{MemoryKind::device, false, nullptr} : Memory{};
  }
  Attributes attributes;
  const Result result = attributes.ask(impl_->shared.driver.call(), pointer);
  if (result == Result::not_initialized || result == Result::deinitialized) return {};
  if (result != Result::success) return without_the_driver(pointer);
  Memory memory;
  memory.exportable = attributes.exportable != 0 && attributes.managed == 0;
  if (attributes.managed != 0)
    memory.kind = MemoryKind::managed;
  else if (attributes.type == driver::memory_type_device)
    memory.kind = MemoryKind::device;
  else if (attributes.type == driver::memory_type_host)
    return {MemoryKind::pinned, true, nullptr};
  else
    return {};
  memory.gpu = attributes.context != nullptr
                   ? impl_->gpu_of(attributes.context, attributes.device())
                   : impl_->primary_gpu(attributes.device());
  if (memory.gpu == nullptr) return without_the_driver(pointer);
  memory.exportable = memory.exportable && memory.gpu->exports();
  return memory;
}

Status Cuda::copy_now(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return Status::ok;
  const Memory target = memory_of(to);
  const Memory source = memory_of(from);
  if (is_out_of_reach(target) || is_out_of_reach(source)) return Status::failed;
  Gpu* gpu = target.gpu != nullptr ? target.gpu : source.gpu;
  if (gpu != nullptr) return gpu->impl().copy_now(to, from, bytes);
  std::memcpy(to, from, bytes);
  return Status::ok;
}

std::byte* Cuda::take_pinned(std::size_t bytes) {
  if (!present() || !impl_->usable()) return nullptr;
  Gpu* gpu = impl_->first_alive();
  if (gpu == nullptr) return nullptr;
  const std::size_t bound = impl_->shared.options.pinned_bound;
  return gpu->impl().take_pinned(bytes, bound - std::min(bound, impl_->pinned_bytes()));
}

void Cuda::give_pinned(std::byte* block, std::size_t /*bytes*/) {
  for (const auto& gpu : impl_->gpus)
    if (gpu->impl().pinned.give(block)) return;
}

void Cuda::launch() {
  if (in_flight_ == 0 || impl_->is_child()) return;
  for (std::size_t i = 0; i < impl_->gpus.size(); ++i) impl_->gpus[i]->impl().launch();
}

unsigned Cuda::poll() {
  if (in_flight_ == 0 || impl_->is_child()) return 0;
  unsigned ended = 0;  // by index: `done` may meet a new context
  for (std::size_t i = 0; i < impl_->gpus.size(); ++i) ended += impl_->gpus[i]->impl().poll();
  return ended;
}

Cuda::Current::Current(Cuda& cuda) : cuda_(nullptr) {
  if (!cuda.present() || !cuda.impl_->usable()) return;
  Gpu* gpu = cuda.impl_->first_alive();
  if (gpu == nullptr) return;
  const auto& call = cuda.impl_->shared.driver.call();
  if (call.cuCtxPushCurrent_v2(gpu->impl().context) == Result::success) cuda_ = &cuda;
}

Cuda::Current::~Current() {
  driver::Context popped = nullptr;
  if (cuda_ != nullptr) cuda_->impl_->shared.driver.call().cuCtxPopCurrent_v2(&popped);
}

void Cuda::release_pools() {
  if (impl_->is_child()) return;
  for (const auto& gpu : impl_->gpus) gpu->impl().release_pools();
}

void Cuda::close() {
  if (!impl_->is_child())
    for (const auto& gpu : impl_->gpus) gpu->impl().close();
  impl_->gpus.clear();
}

std::string Cuda::current_device() {
  if (!present() || !impl_->usable()) return {};
  const auto& call = impl_->shared.driver.call();
  driver::Device device = 0;
  char bus[32] = "";
  if (call.cuCtxGetDevice(&device) != Result::success ||
      call.cuDeviceGetPCIBusId(bus, sizeof bus - 1, device) != Result::success)
    return {};
  return bus;
}

bool Cuda::waits_for_all_streams() const {
  return impl_->shared.driver.call().cuCtxRecordEvent != nullptr;
}

bool Cuda::has_kernels() {
  return kernel::image() != nullptr;
}

std::string Cuda::state() const {
  const driver::Driver& driver = impl_->shared.driver;
  if (!has_kernels()) return fmt::format("{}; {}", driver.describe(), without_kernels);
  return driver.usable() ? driver.describe() + "; reductions on the device" : driver.describe();
}

}  // namespace gpuar
