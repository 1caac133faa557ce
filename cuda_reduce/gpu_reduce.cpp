// Reductions on a Gpu: kernels, launches that carry many of them, and the events that end them.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cuda_reduce/gpu_impl.h"
#include "cuda_reduce/kernel_image.h"
#include "cuda_reduce/reduce.h"

namespace gpuar {

using driver::Result;

namespace {

// Bytes of one operand for which another block is worth its start: 256 threads, four 16-byte
// accesses each.
constexpr std::size_t bytes_per_block = std::size_t{kernel::threads_per_block} * 4 * 16;

}  // namespace

bool Gpu::Impl::load_module() {
  if (module_tried_) return module_ != nullptr;
  module_tried_ = true;
  if (kernel::image() == nullptr) return false;
  int multiprocessors = 0;
  if (call().cuDeviceGetAttribute(&multiprocessors, driver::DeviceAttribute::multiprocessor_count,
                                  device) == Result::success)
    multiprocessors_ = static_cast<unsigned>(std::max(multiprocessors, 1));
  const Result result = call().cuModuleLoadData(&module_, kernel::image());
  if (result == Result::success) return true;
  module_ = nullptr;
  report("loading the reduction kernels (the host reduces instead)", result);
  return false;
}

void Gpu::Impl::load_kernel(Kernel& kernel, const std::string& name) {
  kernel.state = Kernel::unavailable;
  if (!load_module()) return;
  Result result = call().cuModuleGetFunction(&kernel.function, module_, name.c_str());
  int blocks = 0;
  if (result == Result::success)
    result = call().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function,
                                                                kernel::threads_per_block, 0);
  if (result != Result::success) {
    const std::string what = fmt::format("loading kernel {} (the host reduces instead)", name);
    report(what.c_str(), result);
    return;
  }
  kernel.most_blocks = multiprocessors_ * static_cast<unsigned>(std::max(blocks, 1));
  kernel.state = Kernel::ready;
}

// Loaded at first use, and the stream that it runs on made. `name` gives the kernel's.
template <class Name>
const Gpu::Impl::Kernel& Gpu::Impl::loaded(Kernel& kernel, Name name) {
  if (kernel.state == Kernel::unknown || lanes_[compute].stream == nullptr) {
    const InContext current(*this);
    if (current && lane_for(compute) != nullptr && kernel.state == Kernel::unknown)
      load_kernel(kernel, name());
  }
  return kernel;
}

const Gpu::Impl::Kernel& Gpu::Impl::kernel(gpuar_op op, gpuar_type type) {
  return loaded(kernels_[kernel::kernel_index(op, kernel::stand_ins[op][type])],
                [&] { return kernel::name_of_kernel(op, type); });
}

const Gpu::Impl::Kernel& Gpu::Impl::division(gpuar_type type) {
  return loaded(kernels_[kernel::divide_index(type)],
                [&] { return kernel::name_of_division(type); });
}

bool Gpu::Impl::can_reduce(gpuar_op op, gpuar_type type) {
  return !dead_ && kernel::is_on_device(op, type) && kernel(op, type).state == Kernel::ready;
}

bool Gpu::Impl::can_divide(gpuar_type type) {
  return !dead_ && kernel::divides_on_device(type) && division(type).state == Kernel::ready;
}

Status Gpu::Impl::reduce(const GpuReduction& reduction, GpuOp& op) {
  if (dead_) return Status::failed;
  if (!kernel::is_on_device(reduction.op, reduction.type) || reduction.input_count < 2 ||
      reduction.input_count > max_reduce_inputs)
    return Status::unsupported;
  kernel::Task task{};
  task.out = reduction.out;
  std::copy_n(reduction.inputs, reduction.input_count, task.inputs);
  task.input_count = static_cast<std::uint32_t>(reduction.input_count);
  task.count = reduction.count;
  return put(kernel(reduction.op, reduction.type), task, op);
}

Status Gpu::Impl::divide(const GpuDivision& division_of, GpuOp& op) {
  if (dead_) return Status::failed;
  if (!kernel::divides_on_device(division_of.type)) return Status::unsupported;
  kernel::Task task{};
  task.out = division_of.out;
  task.inputs[0] = division_of.in;
  task.input_count = 1;
  task.count = division_of.count;
  task.divide_by = division_of.divide_by;
  return put(division(division_of.type), task, op);
}

// Puts a task together with the others of this poll.
Status Gpu::Impl::put(const Kernel& with, const kernel::Task& task, GpuOp& op) {
  if (dead_) return Status::failed;
  if (task.count == 0) return Status::ok;
  if (with.state != Kernel::ready || lanes_[compute].stream == nullptr) return Status::unsupported;
  pending_.push_back({static_cast<unsigned>(&with - kernels_.data()), task, &op});
  ++shared.in_flight;
  return Status::in_progress;
}

void Gpu::Impl::launch_pending() {
  std::sort(pending_.begin(), pending_.end(),
            [](const Pending& a, const Pending& b) { return a.kernel < b.kernel; });
  for (std::size_t first = 0; first < pending_.size();) {
    std::size_t end = first;
    while (end < pending_.size() && end - first < kernel::Batch::capacity &&
           pending_[end].kernel == pending_[first].kernel)
      ++end;
    launch_batch(first, end);
    if (dead_) return;  // its operations were ended
    first = end;
  }
  pending_.clear();
}

// One launch. Blocks are shared out by size; together they are what the device runs at once.
void Gpu::Impl::launch_batch(std::size_t first, std::size_t end) {
  const unsigned index = pending_[first].kernel;
  const Kernel& kernel = kernels_[index];
  const std::size_t element = element_bytes(static_cast<gpuar_type>(index % GPUAR_TYPE_COUNT));
  const auto wanted = [&](std::size_t i) {
    return (pending_[i].task.count * element + bytes_per_block - 1) / bytes_per_block;
  };
  std::size_t all = 0;
  for (std::size_t i = first; i < end; ++i) all += wanted(i);

  kernel::Batch batch{};  // no stray pointers in what is unused
  std::size_t blocks = 0;
  for (std::size_t i = first; i < end; ++i) {
    const std::size_t share =
        all <= kernel.most_blocks ? wanted(i) : wanted(i) * kernel.most_blocks / all;
    kernel::Task& task = batch.tasks[i - first] = pending_[i].task;
    task.first_block = static_cast<std::uint32_t>(blocks);
    blocks += std::max<std::size_t>(share, 1);
  }
  batch.task_count = end - first;

  void* parameters[] = {&batch};
  const Result result = call().cuLaunchKernel(kernel.function, static_cast<unsigned>(blocks), 1, 1,
                                              kernel::threads_per_block, 1, 1, 0,
                                              lanes_[compute].stream, parameters, nullptr);
  if (result == Result::success) ++shared.launches;
  OpList& list = result == Result::success ? lanes_[compute].open : failed_;
  if (result != Result::success) report("launching a reduction", result);
  for (std::size_t i = first; i < end; ++i) list.push(*std::exchange(pending_[i].op, nullptr));
  if (is_gone(result)) die(result);
}

Lane::Batch* Gpu::Impl::take_batch() try {
  Lane::Batch* batch = idle_batches_;
  if (batch != nullptr) {
    idle_batches_ = batch->next;
  } else {
    batch = batches_.emplace_back(std::make_unique<Lane::Batch>()).get();
  }
  if (batch->event == nullptr) {
    const Result result = call().cuEventCreate(&batch->event, driver::event_disable_timing);
    if (result != Result::success) {
      batch->event = nullptr;
      report("making an event", result);
    }
  }
  batch->next = nullptr;
  batch->recorded = false;
  return batch;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void Gpu::Impl::enqueue(Lane& lane, Lane::Batch* batch) {
  (lane.first == nullptr ? lane.first : lane.last->next) = batch;
  lane.last = batch;
}

// Without an event the operations end once the stream is idle, and count as failed.
void Gpu::Impl::close_batch(Lane& lane) {
  if (lane.open.empty()) return;
  Lane::Batch* batch = take_batch();
  if (batch == nullptr) return;  // with the next launch, then
  if (batch->event != nullptr) {
    const Result result = call().cuEventRecord(batch->event, lane.stream);
    batch->recorded = result == Result::success;
    if (!batch->recorded) report("recording an event", result);
  }
  batch->ops.append(lane.open);
  enqueue(lane, batch);
}

void Gpu::Impl::launch() {
  const auto is_open = [](const Lane& lane) { return !lane.open.empty(); };
  if (pending_.empty() && std::none_of(lanes_.begin(), lanes_.end(), is_open)) return;
  const InContext current(*this);
  if (!current) return;
  launch_pending();
  if (dead_) return;
  for (Lane& lane : lanes_) close_batch(lane);
}

void Gpu::Impl::collect(Lane& lane, OpList& ended) {
  while (lane.first != nullptr) {
    Lane::Batch* batch = lane.first;
    Result result =
        batch->recorded ? call().cuEventQuery(batch->event) : call().cuStreamQuery(lane.stream);
    if (shared.fault("skip_event_wait")) result = Result::success;
    if (result == Result::not_ready) return;
    if (is_gone(result)) return die(result);
    if (result != Result::success) report("work", result);
    const bool good = result == Result::success && batch->recorded;
    (good ? ended : failed_).append(batch->ops);
    lane.first = batch->next;
    batch->next = idle_batches_;
    idle_batches_ = batch;
  }
}

unsigned Gpu::Impl::deliver(OpList& ops, Status status) {
  unsigned count = 0;
  while (GpuOp* op = ops.pop()) {
    --shared.in_flight;
    ++count;
    op->done(op->owner, status);
  }
  return count;
}

// The caller's context is current again when `done` runs: it may post more.
unsigned Gpu::Impl::poll() {
  OpList ended;
  launch();
  const auto is_waiting = [](const Lane& lane) { return lane.first != nullptr; };
  if (std::any_of(lanes_.begin(), lanes_.end(), is_waiting)) {
    if (const InContext current(*this); current)
      for (Lane& lane : lanes_) collect(lane, ended);
  }
  OpList failed;
  failed.append(failed_);
  return deliver(ended, Status::ok) + deliver(failed, Status::failed);
}

}  // namespace gpuar
