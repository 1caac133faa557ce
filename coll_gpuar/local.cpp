// What the component asks of the core for this process alone: memory of any kind, and the
// operations on the types. Behind the C face (core.h), which says what the functions do.
#include <atomic>
#include <new>

#include "coll_gpuar/compiled_engine.h"
#include "cuda_reduce/reduce.h"

extern "C" {

bool gpuar_on_device(gpuar_core* core, const void* pointer) try {
  if (!core->cuda->present()) return false;
  const CoreLock lock(*core);
  const gpuar::Memory memory = core->cuda->memory_of(pointer);
  return memory.gpu || gpuar::is_out_of_reach(memory);
} catch (const std::bad_alloc&) {
  return true;  // it may be: gpuar_copy takes the host's as well
}

int gpuar_wait_for_queued_work(gpuar_core* core, const void* pointer) try {
  if (!core->live->sync_device) return GPUAR_OK;
  struct Wait {
    std::atomic<bool> over{false};
    gpuar::Status status = gpuar::Status::ok;
  } wait;
  gpuar::GpuOp op;
  op.owner = &wait;
  op.done = [](void* owner, gpuar::Status status) {
    auto* ended = static_cast<Wait*>(owner);
    ended->status = status;
    ended->over.store(true, std::memory_order_release);
  };
  {
    const CoreLock lock(*core);
    gpuar::Gpu* gpu = core->cuda->memory_of(pointer).gpu;
    if (!gpu) return GPUAR_OK;
    core->engine.use(*core->cuda);
    const gpuar::Status status = gpu->after_queued_work(op);
    if (status != gpuar::Status::in_progress) return error_code(status);
  }
  while (!wait.over.load(std::memory_order_acquire)) gpuar_progress(core);
  return error_code(wait.status);
} catch (const std::bad_alloc&) {
  return GPUAR_ERR_NO_MEMORY;
}

int gpuar_copy(gpuar_core* core, void* to, const void* from, size_t bytes) try {
  const CoreLock lock(*core);
  return error_code(core->cuda->copy_now(to, from, bytes));
} catch (const std::bad_alloc&) {
  return GPUAR_ERR_NO_MEMORY;
}

bool gpuar_can_reduce(gpuar_op op, gpuar_type type) {
  return gpuar::host_reduce(op, type) != nullptr;
}

bool gpuar_can_divide(gpuar_type type) {
  return gpuar::host_divide(type) != nullptr;
}

size_t gpuar_element_bytes(gpuar_type type) {
  return gpuar::element_bytes(type);
}

void gpuar_reduce_local(gpuar_op op, gpuar_type type, void* out, const void* left,
                        const void* right, size_t count) {
  gpuar::host_reduce(op, type)(out, left, right, count);
}

void gpuar_core_release_pools(gpuar_core* core) {
  const CoreLock lock(*core);
  core->engine.release_pools();
  if (core->cuda->present()) core->cuda->release_pools();
}

}  // extern "C"
