// Memory. A window of addresses is reserved: those in its lower half are what the application sees,
// mapped without any right; the same offset in its upper half, the alias, is the same memory for
// copies and kernels. So translation is one addition, and a dereference on the host faults.
// A page without rights follows each allocation; the bytes up to its end are checked when it goes.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace simgpu {

struct Caller;
struct Context;

enum class Kind {
  kDevice,
  kManaged,  // the host may touch it, at its own address; kernels use that too
  kPinned,
  kRegistered,  // pinned, but the application's
  kImported,    // of another process
  kPool,
  kMapped  // virtual memory management
};

struct Pool;

struct Allocation {
  uintptr_t base = 0;
  size_t size = 0;
  size_t mapped = 0;  // whole pages
  Kind kind = Kind::kDevice;
  int device = 0;
  CUcontext context = nullptr;  // null: of no context
  int file = -1;
  uint64_t id = 0;
  unsigned opens = 1;
  bool freeing = false;  // its cuMemFreeAsync is queued
  bool sync_memops = false;
  CUmemoryPool pool = nullptr;
  uint64_t accessible = 0;  // pool and mapped memory: a bit for each device
  uint64_t chunk = 0;       // mapped memory: the handle of what is mapped
  const Caller* maker = nullptr;

  bool on_device() const { return kind != Kind::kPinned && kind != Kind::kRegistered; }
  bool in_window() const { return on_device(); }
  bool accessible_from(int from) const { return (accessible >> from & 1) != 0; }
};

// Reserves the window; false without address space.
bool reserve_window();
bool in_window(uintptr_t address);

// Where copies and kernels find what the application calls `address`.
uintptr_t alias(const Allocation& allocation, uintptr_t address);

// The allocation that holds the address, as it is now.
std::optional<Allocation> find_allocation(uintptr_t address);
// Changes it, if it is there still.
bool change_allocation(uintptr_t base, const std::function<void(Allocation&)>& change);

CUresult allocate(const Context& context, size_t size, Kind kind, CUmemoryPool pool,
                  CUdeviceptr* out);
CUresult allocate_pinned(const Context& context, size_t size, void** out);

// Pins what the application has; false if part of it is pinned already.
bool register_allocation(Allocation description);

// Addresses for `description.file`, mapped at once; null if there are none.
uintptr_t map_file(Allocation description);

// Frees it; work that uses it must be done.
void release(uintptr_t base);
void release_all_of(const Context& context);

// Addresses alone (virtual memory management).
uintptr_t take_addresses(size_t size, size_t alignment);
void give_addresses(uintptr_t base, size_t size);
bool map_chunk(const Allocation& description);
void allow_access(const Allocation& allocation);
void unmap_chunk(uintptr_t base);

size_t used_memory(int device);
bool charge(int device, size_t size);  // false: out of memory
void discharge(int device, size_t size);
int new_memory_file(size_t size);  // -1: none to be had

void for_each_allocation(const std::function<void(const Allocation&)>& visit);

}  // namespace simgpu
