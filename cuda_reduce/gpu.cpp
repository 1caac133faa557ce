// Copies, scratch memory and the life of a Gpu. Reductions are in gpu_reduce.cpp.
#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "cuda_reduce/gpu_impl.h"

namespace gpuar {

using driver::Result;

void OpList::push(GpuOp& op) {
  op.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &op;
  last_ = &op;
}

void OpList::append(OpList& other) {
  if (other.empty()) return;
  (first_ == nullptr ? first_ : last_->next) = other.first_;
  last_ = other.last_;
  other = {};
}

GpuOp* OpList::pop() {
  GpuOp* op = first_;
  if (op != nullptr) first_ = op->next;
  return op;
}

InContext::InContext(Gpu::Impl& gpu) : gpu_(gpu) {
  if (!gpu.check_alive()) return;
  const auto& call = gpu.shared.driver.call();
  const Result result = call.cuCtxPushCurrent_v2(gpu.context);
  pushed_ = result == Result::success;
  if (pushed_)
    call.cuThreadExchangeStreamCaptureMode(&capture_mode_);
  else
    gpu.die(result);
}

InContext::~InContext() {
  if (!pushed_) return;
  const auto& call = gpu_.shared.driver.call();
  driver::Context popped = nullptr;
  call.cuThreadExchangeStreamCaptureMode(&capture_mode_);
  if (!gpu_.shared.fault("skip_context_pop")) call.cuCtxPopCurrent_v2(&popped);
}

namespace {

// Sources of the two pools; the owner is the Gpu::Impl, whose context is current.
GpuShared& shared_of(void* owner) {
  return static_cast<Gpu::Impl*>(owner)->shared;
}
void lost(void* owner, std::byte* block) {
  shared_of(owner).ending(block);
}
std::byte* allocate_device(void* owner, std::size_t bytes) {
  driver::DevicePointer block = 0;
  const GpuShared& shared = shared_of(owner);
  if (shared.driver.call().cuMemAlloc_v2(&block, bytes) != Result::success) return nullptr;
  auto* const memory = reinterpret_cast<std::byte*>(block);
  shared.made(memory, bytes, MemoryKind::device);
  return memory;
}
void free_device(void* owner, std::byte* block) {
  shared_of(owner).ending(block);
  shared_of(owner).driver.call().cuMemFree_v2(device_pointer(block));
}
std::byte* allocate_pinned(void* owner, std::size_t bytes) {
  void* block = nullptr;
  const GpuShared& shared = shared_of(owner);
  if (shared.driver.call().cuMemHostAlloc(&block, bytes, driver::mem_host_alloc_portable) !=
      Result::success)
    return nullptr;
  shared.made(block, bytes, MemoryKind::pinned);
  return static_cast<std::byte*>(block);
}
void free_pinned(void* owner, std::byte* block) {
  shared_of(owner).ending(block);
  shared_of(owner).driver.call().cuMemFreeHost(block);
}

const char* advice(Result result) {
  switch (result) {
    case Result::out_of_memory:
      return "free device memory, or give gpuar smaller pools";
    case Result::illegal_address:
      return "a buffer given to MPI is not device memory of its full size: run the program under "
             "compute-sanitizer";
    case Result::no_binary_for_gpu:
      return "build gpuar with a CUDA toolkit that knows this GPU";
    default:
      return "look for the program's first CUDA error: later calls repeat it";
  }
}

}  // namespace

Gpu::Impl::Impl(GpuShared& with, driver::Context in, std::uint64_t context_id, int of)
    : shared(with),
      context(in),
      id(context_id),
      ordinal(of),
      scratch({this, allocate_device, free_device, lost}),
      pinned({this, allocate_pinned, free_pinned, lost}) {
  if (call().cuDeviceGet(&device, ordinal) == Result::success) name = make_name();
}

std::string Gpu::Impl::make_name() {
  char model[128] = "GPU";
  char bus[32] = "?";
  driver::Uuid uuid{};
  call().cuDeviceGetName(model, sizeof model - 1, device);
  call().cuDeviceGetPCIBusId(bus, sizeof bus - 1, device);
  call().cuDeviceGetUuid_v2(&uuid, device);
  const bool is_instance = std::string_view(model).find(" MIG ") != std::string_view::npos;
  std::string digits;
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) digits += '-';
    digits += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return fmt::format("{} ({}-{}, {})", model, is_instance ? "MIG" : "GPU", digits, bus);
}

bool Gpu::Impl::check_alive() {
  if (dead_) return false;
  if (call().cuCtxGetId == nullptr || id == 0) return true;
  unsigned long long now = 0;
  const Result result = call().cuCtxGetId(context, &now);
  if (result == Result::success && now == id) return true;
  die(result == Result::success ? Result::context_is_destroyed : result);
  return false;
}

void Gpu::Impl::die(Result why) {
  if (dead_) return;
  dead_ = true;
  for (const Pending& pending : pending_)
    if (pending.op != nullptr) failed_.push(*pending.op);
  pending_.clear();
  for (Lane& lane : lanes_) {
    failed_.append(lane.open);
    for (Lane::Batch* batch = lane.first; batch != nullptr; batch = batch->next)
      failed_.append(batch->ops);
    lane = {};
  }
  if (!failed_.empty()) report_loss(why);
  waiting_stream_ = nullptr;
  idle_batches_ = nullptr;
  batches_.clear();
  module_ = nullptr;
  kernels_ = {};
  scratch.forget();
  pinned.forget();
}

void Gpu::Impl::report(const char* what, Result why) try {
  std::string line = fmt::format("gpuar: {} on {} failed: {}; {}", what, name,
                                 shared.driver.name_of(why), advice(why));
  if (line == last_report_) return;
  shared.log(line);
  last_report_ = std::move(line);
} catch (const std::bad_alloc&) {
  // Nothing is said.
}

void Gpu::Impl::report_loss(Result why) try {
  shared.log(
      fmt::format("gpuar: {}: its CUDA context is gone ({}) with operations of gpuar under way, "
                  "which fail: complete all communication before the device is reset",
                  name, shared.driver.name_of(why)));
} catch (const std::bad_alloc&) {
  // Nothing is said.
}

Lane* Gpu::Impl::lane_for(LaneIndex index) {
  Lane& lane = lanes_[index];
  if (lane.stream == nullptr) {
    const Result result = call().cuStreamCreate(&lane.stream, driver::stream_non_blocking);
    if (result != Result::success) {
      lane.stream = nullptr;
      report("making a stream", result);
      return nullptr;
    }
  }
  return &lane;
}

Gpu::Impl::LaneIndex Gpu::Impl::direction(void* to, const void* from) {
  const auto on_device = [this](const void* pointer) {
    unsigned type = driver::memory_type_host;
    const Result result = call().cuPointerGetAttribute(&type, driver::PointerAttribute::memory_type,
                                                       device_pointer(pointer));
    return result == Result::success && type == driver::memory_type_device;
  };
  if (!on_device(to)) return down;
  return on_device(from) ? compute : up;
}

Status Gpu::Impl::start(Result result, const char* what, Lane& lane, GpuOp& op) {
  if (result != Result::success) {
    report(what, result);
    if (is_gone(result)) die(result);
    return Status::failed;
  }
  lane.open.push(op);
  ++shared.in_flight;
  return Status::in_progress;
}

Status Gpu::Impl::copy(void* to, const void* from, std::size_t bytes, GpuOp& op) {
  if (bytes == 0) return Status::ok;
  const InContext current(*this);
  if (!current) return Status::failed;
  const LaneIndex index = direction(to, from);
  Lane* lane = lane_for(index);
  if (lane == nullptr) return Status::failed;
  Result result = Result::success;
  if (index == compute || !shared.fault("skip_staging_copy"))
    result = call().cuMemcpyAsync(device_pointer(to), device_pointer(from), bytes, lane->stream);
  if (result == Result::success) ++shared.copies;
  return start(result, "a copy", *lane, op);
}

Status Gpu::Impl::copy_now(void* to, const void* from, std::size_t bytes) {
  const InContext current(*this);
  if (!current) return Status::failed;
  Result result = Result::success;
  if (waiting_stream_ == nullptr)
    result = call().cuStreamCreate(&waiting_stream_, driver::stream_non_blocking);
  if (result == Result::success)
    result = call().cuMemcpyAsync(device_pointer(to), device_pointer(from), bytes, waiting_stream_);
  if (result == Result::success) result = call().cuStreamSynchronize(waiting_stream_);
  if (result == Result::success) {
    ++shared.copies;
    return Status::ok;
  }
  report("a copy", result);
  if (is_gone(result)) die(result);
  return Status::failed;
}

Status Gpu::Impl::after_queued_work(GpuOp& op) {
  const InContext current(*this);
  if (!current) return Status::failed;
  Lane::Batch* batch = take_batch();
  if (batch == nullptr) return Status::no_memory;
  Result result = Result::out_of_memory;
  if (batch->event != nullptr)
    result = call().cuCtxRecordEvent != nullptr
                 ? call().cuCtxRecordEvent(context, batch->event)
                 : call().cuEventRecord(batch->event, driver::legacy_stream());
  if (result != Result::success) {
    batch->next = idle_batches_;
    idle_batches_ = batch;
    report("waiting for work that the program queued", result);
    if (is_gone(result)) die(result);
    return Status::failed;
  }
  batch->recorded = true;
  batch->ops.push(op);
  enqueue(lanes_[queued], batch);
  ++shared.in_flight;
  return Status::in_progress;
}

std::byte* Gpu::Impl::take(std::size_t bytes) {
  if (std::byte* block = scratch.take(bytes)) return block;
  const InContext current(*this);
  if (!current) return nullptr;
  if (std::byte* block = scratch.allocate(bytes)) return block;
  scratch.trim(0);
  return scratch.allocate(bytes);
}

bool Gpu::Impl::exports() {
  if (exports_ != Exports::unknown) return exports_ == Exports::yes;
  constexpr std::size_t bytes = 256;
  std::byte* block = take(bytes);
  const InContext current(*this);
  if (block == nullptr || !current) return true;  // not known yet
  driver::IpcHandle handle{};
  const Result result = call().cuIpcGetMemHandle(&handle, device_pointer(block));
  exports_ = result == Result::success ? Exports::yes : Exports::no;
  sample_ = std::bit_cast<IpcSample>(handle);
  if (exports_ == Exports::no) scratch.give(block);  // else others may open it as long as it is
  return exports_ == Exports::yes;
}

const IpcSample* Gpu::Impl::sample() {
  return exports() && exports_ == Exports::yes && !dead_ ? &sample_ : nullptr;
}

std::string Gpu::Impl::refusal_of(const IpcSample& other) {
  const InContext current(*this);
  if (!current) return {};  // nobody was asked
  driver::DevicePointer opened = 0;
  const Result result = call().cuIpcOpenMemHandle_v2(
      &opened, std::bit_cast<driver::IpcHandle>(other), driver::ipc_lazy_peer_access);
  if (result != Result::success) return shared.driver.name_of(result);
  call().cuIpcCloseMemHandle(opened);
  return {};
}

std::byte* Gpu::Impl::take_pinned(std::size_t bytes, std::size_t room) {
  if (std::byte* block = pinned.take(bytes)) return block;
  const std::size_t needed = BlockPool::block_bytes(bytes);
  if (needed == 0 || needed > room + pinned.idle_bytes()) return nullptr;
  const InContext current(*this);
  if (!current) return nullptr;
  if (needed > room)
    pinned.trim(pinned.idle_bytes() - std::min(pinned.idle_bytes(), needed - room));
  if (std::byte* block = pinned.allocate(bytes)) return block;
  pinned.trim(0);
  return pinned.allocate(bytes);
}

void Gpu::Impl::release_pools() {
  if (scratch.idle_bytes() == 0 && pinned.idle_bytes() == 0) return;
  const InContext current(*this);
  if (!current) return;
  scratch.trim(0);
  pinned.trim(0);
}

void Gpu::Impl::close() {
  if (const InContext current(*this); current) {
    for (Lane& lane : lanes_)
      if (lane.stream != nullptr) call().cuStreamDestroy_v2(lane.stream);
    if (waiting_stream_ != nullptr) call().cuStreamDestroy_v2(waiting_stream_);
    for (const auto& batch : batches_)
      if (batch->event != nullptr) call().cuEventDestroy_v2(batch->event);
    if (module_ != nullptr) call().cuModuleUnload(module_);
    scratch.clear();
    pinned.clear();
  }
  if (retained && !dead_) call().cuDevicePrimaryCtxRelease_v2(device);
  dead_ = true;
}

// --- The face ----------------------------------------------------------------------------------

// What finds no memory of the host's is not begun.
template <class Body>
static Status unless_out_of_memory(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status::no_memory;
  }
}

Gpu::Gpu(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gpu::~Gpu() = default;
Status Gpu::copy(void* to, const void* from, std::size_t bytes, GpuOp& op) {
  return unless_out_of_memory([&] { return impl_->copy(to, from, bytes, op); });
}
bool Gpu::can_reduce(gpuar_op op, gpuar_type type) {
  return impl_->can_reduce(op, type);
}

bool Gpu::can_divide(gpuar_type type) {
  return impl_->can_divide(type);
}

Status Gpu::divide(const GpuDivision& division, GpuOp& op) {
  return unless_out_of_memory([&] { return impl_->divide(division, op); });
}

Status Gpu::reduce(const GpuReduction& reduction, GpuOp& op) {
  return unless_out_of_memory([&] { return impl_->reduce(reduction, op); });
}
Status Gpu::after_queued_work(GpuOp& op) {
  return unless_out_of_memory([&] { return impl_->after_queued_work(op); });
}
std::byte* Gpu::take(std::size_t bytes) {
  return impl_->take(bytes);
}
void Gpu::give(std::byte* block, std::size_t /*bytes*/) {
  if (!impl_->scratch.give(block)) return;
  if (impl_->scratch.idle_bytes() <= impl_->shared.options.pool_bound) return;
  if (const InContext current(*impl_); current)
    impl_->scratch.trim(impl_->shared.options.pool_bound);
}
bool Gpu::exports() {
  return impl_->exports();
}
const IpcSample* Gpu::sample() {
  return impl_->sample();
}
std::string Gpu::refusal_of(const IpcSample& sample) {
  return impl_->refusal_of(sample);
}
const std::string& Gpu::name() const {
  return impl_->name;
}

}  // namespace gpuar
