// What a Gpu is made of. Inside cuda_reduce only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_reduce/block_pool.h"
#include "cuda_reduce/driver.h"
#include "cuda_reduce/gpu.h"
#include "cuda_reduce/kernel_table.h"

namespace gpuar {

// What all Gpus of a Cuda share.
struct GpuShared {
  GpuShared(const CudaOptions& with, std::size_t& started, std::uint64_t& launched,
            std::uint64_t& copied)
      : options(with), in_flight(started), launches(launched), copies(copied) {}

  // Whether a deliberate defect is asked for.
  bool fault(std::string_view name) const { return name == options.test_fault; }
  void log(const std::string& line) const {
    if (options.log != nullptr) options.log(line.c_str());
  }
  void made(void* block, std::size_t bytes, MemoryKind kind) const {
    if (options.blocks.made != nullptr)
      options.blocks.made(options.blocks.owner, block, bytes, kind);
  }
  void ending(void* block) const {
    if (options.blocks.ending != nullptr) options.blocks.ending(options.blocks.owner, block);
  }

  driver::Driver driver;
  CudaOptions options;
  std::size_t& in_flight;
  std::uint64_t& launches;
  std::uint64_t& copies;
};

// Operations in order, linked through GpuOp::next.
class OpList {
 public:
  bool empty() const { return first_ == nullptr; }
  void push(GpuOp& op);
  void append(OpList& other);  // and empties it
  GpuOp* pop();

 private:
  GpuOp* first_ = nullptr;
  GpuOp* last_ = nullptr;
};

// A stream and the operations on it. Those that are started between two launches share an event.
struct Lane {
  // Operations that end with one event. Kept for reuse, with its event.
  struct Batch {
    driver::Event event = nullptr;
    bool recorded = false;  // else the stream is asked
    OpList ops;
    Batch* next = nullptr;
  };

  driver::Stream stream = nullptr;  // made at first use
  OpList open;                      // started, without an event yet
  Batch* first = nullptr;           // waiting, in order
  Batch* last = nullptr;
};

struct Gpu::Impl {
  Impl(GpuShared& with, driver::Context in, std::uint64_t id, int ordinal);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() = default;

  Status copy(void* to, const void* from, std::size_t bytes, GpuOp& op);
  Status copy_now(void* to, const void* from, std::size_t bytes);
  bool can_reduce(gpuar_op op, gpuar_type type);
  Status reduce(const GpuReduction& reduction, GpuOp& op);
  bool can_divide(gpuar_type type);
  Status divide(const GpuDivision& division, GpuOp& op);
  Status after_queued_work(GpuOp& op);
  std::byte* take(std::size_t bytes);
  bool exports();
  const IpcSample* sample();
  std::string refusal_of(const IpcSample& other);
  // Pinned memory of at most `room` new bytes.
  std::byte* take_pinned(std::size_t bytes, std::size_t room);

  void launch();
  unsigned poll();
  void release_pools();
  void close();

  bool dead() const { return dead_; }
  // Whether the context is still the one that this was made for; if not, ends it.
  bool check_alive();
  // Ends all operations with Status::failed and forgets all handles: they are gone.
  void die(driver::Result why);
  // A line about a failed call; not the same one twice in a row.
  void report(const char* what, driver::Result why);
  void report_loss(driver::Result why);

  GpuShared& shared;
  const driver::Context context;
  const std::uint64_t id;  // of the context: its address may be used again; 0 if unknown
  const int ordinal;
  driver::Device device = 0;
  bool retained = false;  // holds the device's primary context
  std::string name;
  BlockPool scratch;
  BlockPool pinned;

 private:
  enum LaneIndex { compute, down, up, queued, lane_count };
  struct Pending {
    unsigned kernel;  // index in kernels_
    kernel::Task task;
    GpuOp* op;  // nullptr once launched
  };
  struct Kernel {
    enum State { unknown, ready, unavailable } state = unknown;
    driver::Function function = nullptr;
    unsigned most_blocks = 1;  // that the device runs at once
  };

  const driver::Functions& call() const { return shared.driver.call(); }
  std::string make_name();
  Lane* lane_for(LaneIndex index);
  LaneIndex direction(void* to, const void* from);
  Status start(driver::Result result, const char* what, Lane& lane, GpuOp& op);

  bool load_module();
  const Kernel& kernel(gpuar_op op, gpuar_type type);
  const Kernel& division(gpuar_type type);
  template <class Name>
  const Kernel& loaded(Kernel& kernel, Name name);
  void load_kernel(Kernel& kernel, const std::string& name);
  Status put(const Kernel& kernel, const kernel::Task& task, GpuOp& op);
  void launch_pending();
  void launch_batch(std::size_t first, std::size_t end);

  Lane::Batch* take_batch();  // nullptr if there is no memory
  void close_batch(Lane& lane);
  void enqueue(Lane& lane, Lane::Batch* batch);
  void collect(Lane& lane, OpList& ended);
  unsigned deliver(OpList& ops, Status status);

  bool dead_ = false;
  enum class Exports { unknown, yes, no } exports_ = Exports::unknown;
  IpcSample sample_{};
  std::string last_report_;
  std::array<Lane, lane_count> lanes_;
  driver::Stream waiting_stream_ = nullptr;  // of copy_now
  std::vector<std::unique_ptr<Lane::Batch>> batches_;
  Lane::Batch* idle_batches_ = nullptr;
  OpList failed_;
  driver::Module module_ = nullptr;
  bool module_tried_ = false;
  unsigned multiprocessors_ = 1;
  std::array<Kernel, kernel::kernel_places> kernels_;
  std::vector<Pending> pending_;
};

// Makes a Gpu's context current for its lifetime. While the program captures a CUDA graph, in this
// thread or another, the driver refuses calls that could belong into it, and drops the capture;
// gpuar's never do, and the relaxed mode says so.
class InContext {
 public:
  explicit InContext(Gpu::Impl& gpu);
  ~InContext();
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  // False: the context is gone, and so is all that the Gpu had in it.
  explicit operator bool() const { return pushed_; }

 private:
  Gpu::Impl& gpu_;
  bool pushed_ = false;
  int capture_mode_ = driver::capture_relaxed;  // the thread's own, while this lives
};

// Whether the result says that the context, or the driver, is no more.
constexpr bool is_gone(driver::Result result) {
  using driver::Result;
  return result == Result::context_is_destroyed || result == Result::invalid_context ||
         result == Result::deinitialized || result == Result::not_initialized;
}

inline driver::DevicePointer device_pointer(const void* pointer) {
  return reinterpret_cast<driver::DevicePointer>(pointer);
}

}  // namespace gpuar
