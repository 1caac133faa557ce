// Work on CUDA devices: copies, reductions and scratch memory, posted and polled.
//
// The driver is opened at run time, and only once something else in the process has loaded it.
// Everything runs on streams of gpuar's own, in the context that a buffer belongs to, pushed and
// popped around each use: the caller's current context stays what it was. Nothing here waits for a
// device, takes a lock or throws: the engine serialises all calls, and polls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "coll_gpuar/status.h"
#include "cuda_reduce/loaded_objects.h"
#include "cuda_reduce/memory.h"
#include "cuda_reduce/types.h"

namespace gpuar {

// One copy or reduction under way. The caller owns it and keeps it alive until `done` is called,
// from Cuda::poll(); an operation whose start returned anything but in_progress is over and `done`
// is not called. A started operation always ends, also after an error of the device.
struct GpuOp {
  void (*done)(void* owner, Status status) = nullptr;
  void* owner = nullptr;
  GpuOp* next = nullptr;  // the Gpu's own
};

// At most this many inputs are reduced in one pass.
constexpr std::size_t max_reduce_inputs = 8;

struct GpuReduction {
  gpuar_op op = GPUAR_SUM;
  gpuar_type type = GPUAR_FLOAT32;
  void* out = nullptr;                         // may be one of the inputs
  const void* inputs[max_reduce_inputs] = {};  // ((i0 ∘ i1) ∘ i2) …, rounded at each step
  std::size_t input_count = 2;                 // 2 to max_reduce_inputs
  std::size_t count = 0;                       // elements, not 0
};

// out[i] = in[i] / divide_by, as host_divide() does: what makes an average of a finished sum.
struct GpuDivision {
  gpuar_type type = GPUAR_FLOAT32;
  void* out = nullptr;
  const void* in = nullptr;  // may be `out`
  std::size_t count = 0;     // elements, not 0
  std::int32_t divide_by = 1;
};

// Device memory of one process as another one opens it: a legacy IPC handle.
using IpcSample = std::array<std::byte, 64>;

// One device context of this process: streams, events, the loaded kernels, scratch memory. Made at
// first use, kept until Cuda::close().
class Gpu {
 public:
  // Posts a copy; either end may be any kind of memory. Unordered with everything else in flight.
  Status copy(void* to, const void* from, std::size_t bytes, GpuOp& op);

  // Puts a reduction together with the others of this poll: the next Cuda::launch() or
  // Cuda::poll() sends all of one operation and type to the device in one launch. All pointers are
  // memory that the device reaches (device, managed, pinned); any alignment of the element's.
  Status reduce(const GpuReduction& reduction, GpuOp& op);

  // Whether this device reduces the pair: not long double and binary128, and nothing in a build
  // without kernels or where the driver cannot load them (said once). Loads them at first need.
  bool can_reduce(gpuar_op op, gpuar_type type);

  // As reduce() and can_reduce(), for divisions.
  Status divide(const GpuDivision& division, GpuOp& op);
  bool can_divide(gpuar_type type);

  // Posts an operation that ends when all work queued in this context before it has ended: the
  // caller's own kernels that still write a buffer (coll_gpuar_sync_device).
  Status after_queued_work(GpuOp& op);

  // Exportable device memory, 256-byte aligned, from a bounded pool; nullptr if the device or the
  // bound has none left. give() says the same number of bytes.
  std::byte* take(std::size_t bytes);
  void give(std::byte* block, std::size_t bytes);

  // Whether the driver shares this device's memory between processes by legacy IPC handles. Some
  // systems refuse; asked once, with a block of scratch.
  bool exports();
  // The handle of that block, which stays as long as this context, so that others can try it;
  // nullptr if there is none.
  const IpcSample* sample();
  // Opens another process's sample and closes it again. What the driver said, as
  // "CUDA_ERROR_NOT_SUPPORTED"; empty if it did. Throws std::bad_alloc.
  std::string refusal_of(const IpcSample& sample);

  // "NVIDIA H100 (GPU-uuid, bus id)", for people.
  const std::string& name() const;

  struct Impl;
  explicit Gpu(std::unique_ptr<Impl> impl);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Whether this machine has a CUDA device that a program might use: a look at device files. Loads
// nothing.
bool machine_has_gpu();

// Told of the blocks of scratch that the pools take from the driver, each once, and before they are
// freed: whoever registers memory that lives long wants to know. A block whose context was
// destroyed is told of, too, when that is found out.
struct BlockObserver {
  void* owner = nullptr;
  void (*made)(void* owner, void* block, std::size_t bytes, MemoryKind kind) = nullptr;
  void (*ending)(void* owner, void* block) = nullptr;
};

struct CudaOptions {
  std::size_t pool_bound = std::size_t{256} << 20;    // bytes of idle device scratch per GPU
  std::size_t pinned_bound = std::size_t{256} << 20;  // bytes of pinned memory in all
  const char* test_fault = "";                        // the name of a deliberate defect, for tests
  void (*log)(const char* line) = nullptr;            // trouble, one line each
  BlockObserver blocks;
};

// CUDA as this process sees it. One per core.
class Cuda {
 public:
  explicit Cuda(const CudaOptions& options);
  ~Cuda();
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  // Whether something in this process has loaded the CUDA driver (libcuda.so.1). A handful of
  // instructions while nothing has; any thread.
  bool present() noexcept { return objects_.have_grown() && (found_ || look_again()); }

  // The kind of memory at `pointer`, asked of the driver each time: addresses are reused. Host if
  // the driver does not know the address, or cannot be used (see state()). Where it answers with an
  // error: host if the host can read it, else is_out_of_reach(). So is a device's memory where the
  // driver is too old.
  Memory memory_of(const void* pointer) { return present() ? ask(pointer) : Memory{}; }

  // Copies and waits, any kinds of memory; for pieces of a user's layout only.
  Status copy_now(void* to, const void* from, std::size_t bytes);

  // Pinned host memory from a bounded pool, usable by all devices; nullptr if the driver or the
  // bound has none left.
  std::byte* take_pinned(std::size_t bytes);
  void give_pinned(std::byte* block, std::size_t bytes);

  // Sends off the reductions that were put together.
  void launch();
  // launch(), then calls `done` of what has ended. Returns the number of operations ended.
  unsigned poll();
  // Operations in flight or put together.
  std::size_t in_flight() const { return in_flight_; }

  // Makes the context of the first GPU in use current for its lifetime: UCX's CUDA transports want
  // one. Nothing if no GPU is in use.
  class Current {
   public:
    explicit Current(Cuda& cuda);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    Cuda* cuda_;
  };

  // Gives idle pooled memory back.
  void release_pools();
  // Frees everything; touches nothing if the driver or a context is gone, or in a forked child.
  // No operation may be in flight.
  void close();

  // The PCI bus id of the device whose context is current in this thread; empty if none is.
  std::string current_device();

  // One line for people: the driver and its version, or why no GPU can be used.
  std::string state() const;
  bool waits_for_all_streams() const;  // as after_queued_work() should; drivers before 12.5 do not
  // Without them, in a build made without nvcc, no device reduces.
  static constexpr const char* without_kernels =
      "this build has no kernels (made without nvcc, or with -Dcuda=disabled): the host reduces";
  static bool has_kernels();
  // Launches and copies so far, by this object.
  std::uint64_t launches() const { return launches_; }
  std::uint64_t copies() const { return copies_; }

 private:
  bool look_again() noexcept;
  Memory ask(const void* pointer);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  LoadedObjects objects_;
  std::atomic<bool> found_ = false;
  std::size_t in_flight_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t copies_ = 0;
};

}  // namespace gpuar
