#include "context.h"

#include "memory.h"
#include "module.h"
#include "process.h"

namespace simgpu {
namespace {

// Trivial: the driver is called from destructors that run after those of thread_local objects.
struct Current {
  Context* stack[64];
  unsigned depth;
};
thread_local Current current = {};

std::atomic<uint64_t> next_id{1};
std::mutex& mutex() {  // of all contexts' life
  static auto* const one = new std::mutex;
  return *one;
}

std::map<CUcontext, Context*>& contexts() {
  static auto* const all = new std::map<CUcontext, Context*>;
  return *all;
}

std::vector<Context*>& primaries() {
  static auto* const all = new std::vector<Context*>(static_cast<size_t>(device_count()));
  return *all;
}

Context& new_context(int device, bool primary) {
  auto* context = new Context;
  context->device = device;
  context->primary = primary;
  context->handle = reinterpret_cast<CUcontext>(next_handle());
  contexts()[context->handle] = context;
  return *context;
}

void enliven(Context& context) {
  context.id = next_id++;
  context.failure = CUDA_SUCCESS;
  context.maker = current_caller();
  context.legacy = new_stream(context, 0, 0);
  context.markers = new_stream(context, CU_STREAM_NON_BLOCKING, 0);
  context.alive = true;
}

// All that the context owns goes with it.
void destroy(Context& context) {
  synchronize(context);
  context.alive = false;
  std::vector<StreamPtr> owned;
  {
    const std::lock_guard lock(context.mutex);
    owned.swap(context.streams);
    context.per_thread.clear();
    context.peers.clear();
  }
  for (const StreamPtr& stream : owned) {
    stream->stop();
    if (stream->handle != nullptr) streams().remove(stream->handle);
  }
  events().remove_if([&](const Event& event) { return &event.context == &context; });
  modules().remove_if([&](const Module& module) { return &module.context == &context; });
  functions().remove_if([&](const Function& function) { return &function.context == &context; });
  release_all_of(context);
}

bool no_device(CUdevice device) {
  return device < 0 || device >= device_count();
}

CUresult primary_alive(CUdevice device, Context*& context) {
  if (no_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  context = primaries()[static_cast<size_t>(device)];
  return CUDA_SUCCESS;
}

}  // namespace

Context* find_context(CUcontext handle) {
  const std::lock_guard lock(mutex());
  const auto found = contexts().find(handle);
  return found == contexts().end() ? nullptr : found->second;
}

Context* current_context() {
  return current.depth == 0 ? nullptr : current.stack[current.depth - 1];
}

std::vector<CompletionPtr> last_of_all(Context& context) {
  const std::lock_guard lock(context.mutex);
  std::erase_if(context.draining, [](const CompletionPtr& done) { return done->peek(); });
  std::vector<CompletionPtr> all = context.draining;
  for (const StreamPtr& stream : context.streams)
    if (CompletionPtr last = stream->last()) all.push_back(std::move(last));
  return all;
}

void synchronize(Context& context) {
  for (const CompletionPtr& last : last_of_all(context)) last->wait();
}

CUresult state_of(const Context& context) {
  if (!context.alive)
    return misuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context is destroyed");
  return static_cast<CUresult>(context.failure.load());
}

CUresult no_context(Complaint complaint) {
  if (complaint == Complaint::kSilent) return CUDA_ERROR_INVALID_CONTEXT;
  return misuse(CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
}

StreamPtr find_stream(Context& context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return context.legacy;
  if (handle != CU_STREAM_PER_THREAD) return streams().find(handle);
  {
    const std::lock_guard lock(context.mutex);
    const auto found = context.per_thread.find(std::this_thread::get_id());
    if (found != context.per_thread.end()) return found->second;
  }
  StreamPtr stream = new_stream(context, 0, 0);
  const std::lock_guard lock(context.mutex);
  return context.per_thread[std::this_thread::get_id()] = stream;
}

void for_each_left_context(const std::function<void(const Context&)>& visit) {
  const std::lock_guard lock(mutex());
  for (const auto& [handle, context] : contexts())
    if (context->alive) visit(*context);
}

// --- Primary contexts ------------------------------------------------------------------------

ENTRY(cuDevicePrimaryCtxRetain)(CUcontext* out, CUdevice device) {
  return with_driver([&] {
    if (no_device(device) || out == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard lock(mutex());
    Context*& context = primaries()[static_cast<size_t>(device)];
    if (context == nullptr) context = &new_context(device, true);
    if (!context->alive) enliven(*context);
    context->retained++;
    return store(out, context->handle);
  });
}

ENTRY(cuDevicePrimaryCtxRelease)(CUdevice device) {
  return with_driver([&] {
    Context* context = nullptr;
    const std::lock_guard lock(mutex());
    if (const CUresult r = primary_alive(device, context); r != CUDA_SUCCESS) return r;
    if (context == nullptr || context->retained == 0)
      return misuse(CUDA_ERROR_INVALID_CONTEXT, "the primary context is released too often");
    if (--context->retained == 0) destroy(*context);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuDevicePrimaryCtxReset)(CUdevice device) {
  return with_driver([&] {
    Context* context = nullptr;
    const std::lock_guard lock(mutex());
    if (const CUresult r = primary_alive(device, context); r != CUDA_SUCCESS) return r;
    if (context == nullptr || !context->alive) return CUDA_SUCCESS;
    context->retained = 0;
    destroy(*context);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuDevicePrimaryCtxGetState)(CUdevice device, unsigned* flags, int* active) {
  return with_driver([&] {
    Context* context = nullptr;
    const std::lock_guard lock(mutex());
    if (const CUresult r = primary_alive(device, context); r != CUDA_SUCCESS) return r;
    if (flags != nullptr) *flags = context == nullptr ? 0 : context->flags.load();
    if (active != nullptr) *active = context != nullptr && context->alive ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuDevicePrimaryCtxSetFlags)(CUdevice device, unsigned) {
  return with_driver([&] { return no_device(device) ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS; });
}

// --- Contexts of one's own -------------------------------------------------------------------

ENTRY(cuCtxCreate)(CUcontext* out, CUctxCreateParams*, unsigned flags, CUdevice device) {
  return with_driver([&] {
    if (no_device(device) || out == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (current.depth == std::size(current.stack)) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::lock_guard lock(mutex());
    Context& context = new_context(device, false);
    context.flags = flags;
    enliven(context);
    current.stack[current.depth++] = &context;
    return store(out, context.handle);
  });
}

extern "C" CUresult simgpu_cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return simgpu_cuCtxCreate_v4(out, nullptr, flags, device);
}

extern "C" CUresult simgpu_cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int, unsigned flags,
                                          CUdevice device) {
  return simgpu_cuCtxCreate_v4(out, nullptr, flags, device);
}

ENTRY(cuCtxDestroy)(CUcontext handle) {
  return with_driver([&] {
    Context* const context = find_context(handle);
    if (context == nullptr || !context->alive || context->primary)
      return misuse(CUDA_ERROR_INVALID_CONTEXT, "no such context to destroy");
    const std::lock_guard lock(mutex());
    destroy(*context);
    if (current_context() == context) current.depth--;
    return CUDA_SUCCESS;
  });
}

// --- The current context ---------------------------------------------------------------------

ENTRY(cuCtxGetCurrent)(CUcontext* out) {
  return with_driver([&] {
    const Context* const context = current_context();
    return store(out, context == nullptr ? nullptr : context->handle);
  });
}

ENTRY(cuCtxSetCurrent)(CUcontext handle) {
  return with_driver([&] {
    Context* const context = handle == nullptr ? nullptr : find_context(handle);
    if (handle != nullptr && context == nullptr)
      return misuse(CUDA_ERROR_INVALID_CONTEXT, "no such context to make current");
    if (context != nullptr && !context->alive) return state_of(*context);
    if (current.depth > 0) current.depth--;
    if (context != nullptr) current.stack[current.depth++] = context;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuCtxPushCurrent)(CUcontext handle) {
  return with_driver([&] {
    Context* const context = find_context(handle);
    if (context == nullptr) return misuse(CUDA_ERROR_INVALID_CONTEXT, "no such context to push");
    if (!context->alive) return state_of(*context);
    if (current.depth == std::size(current.stack))
      return misuse(CUDA_ERROR_INVALID_VALUE, "contexts are pushed and never popped");
    current.stack[current.depth++] = context;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuCtxPopCurrent)(CUcontext* out) {
  return with_driver([&] {
    const Context* const context = current_context();
    if (context == nullptr)
      return misuse(CUDA_ERROR_INVALID_CONTEXT, "a context is popped that nobody pushed");
    current.depth--;
    return out == nullptr ? CUDA_SUCCESS : store(out, context->handle);
  });
}

ENTRY(cuCtxGetDevice)(CUdevice* out) {
  return with_context([&](Context& context) { return store(out, context.device); },
                      Complaint::kSilent);
}

// Of any context; null: the current one.
ENTRY(cuCtxGetDevice_v2)(CUdevice* out, CUcontext handle) {
  return with_driver([&] {
    const Context* const context = handle == nullptr ? current_context() : find_context(handle);
    return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : store(out, context->device);
  });
}

ENTRY(cuCtxGetId)(CUcontext handle, unsigned long long* out) {
  return with_driver([&] {
    const Context* const context = handle == nullptr ? current_context() : find_context(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return context->alive ? store(out, context->id.load()) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  });
}

ENTRY(cuCtxGetFlags)(unsigned* out) {
  return with_context([&](Context& context) { return store(out, context.flags.load()); });
}

ENTRY(cuCtxSetFlags)(unsigned flags) {
  return with_context(
      [&](Context& context) {
        context.flags |= flags;
        return CUDA_SUCCESS;
      },
      Complaint::kSilent);  // UCX asks before there is one
}

ENTRY(cuCtxSynchronize)() {
  return with_context([&](Context& context) {
    synchronize(context);
    return static_cast<CUresult>(context.failure.load());
  });
}

ENTRY(cuCtxSynchronize_v2)(CUcontext handle) {
  return with_driver([&] {
    Context* const context = handle == nullptr ? current_context() : find_context(handle);
    if (context == nullptr || !context->alive)
      return misuse(CUDA_ERROR_INVALID_CONTEXT, "no such context to wait for");
    synchronize(*context);
    return static_cast<CUresult>(context->failure.load());
  });
}

ENTRY(cuCtxGetStreamPriorityRange)(int* least, int* greatest) {
  return with_context([&](Context&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuCtxEnablePeerAccess)(CUcontext handle, unsigned flags) {
  return with_context([&](Context& context) {
    const Context* const peer = find_context(handle);
    if (peer == nullptr || flags != 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (!can_access(context.device, peer->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const std::lock_guard lock(context.mutex);
    return context.peers.insert(peer->device).second ? CUDA_SUCCESS
                                                     : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}

ENTRY(cuCtxDisablePeerAccess)(CUcontext handle) {
  return with_context([&](Context& context) {
    const Context* const peer = find_context(handle);
    if (peer == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const std::lock_guard lock(context.mutex);
    return context.peers.erase(peer->device) != 0 ? CUDA_SUCCESS
                                                  : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  });
}

}  // namespace simgpu
