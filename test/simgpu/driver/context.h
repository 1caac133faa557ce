// Contexts, the current one of each thread, and the checks that each call begins with.
#pragma once
#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "calls.h"
#include "ordering.h"
#include "stream.h"

namespace simgpu {

// Never freed: a destroyed one says so when it is used. The primary context of a device keeps its
// handle and comes back to life when it is retained again.
struct Context {
  int device = 0;  // as this process counts
  bool primary = false;
  CUcontext handle = nullptr;
  std::atomic<bool> alive{false};
  std::atomic<int> failure{CUDA_SUCCESS};  // sticks once a kernel has failed
  std::atomic<uint64_t> id{0};
  std::atomic<unsigned> flags{0};
  unsigned retained = 0;
  const Caller* maker = nullptr;

  std::mutex mutex;  // of what follows
  std::set<int> peers;
  std::vector<StreamPtr> streams;       // with the following ones
  std::vector<CompletionPtr> draining;  // what destroyed streams had still to do
  StreamPtr legacy;                     // the default stream
  StreamPtr markers;                    // of cuCtxRecordEvent
  std::map<std::thread::id, StreamPtr> per_thread;
};

Context* find_context(CUcontext handle);
Context* current_context();  // null: none

// All work of the context, waited for.
void synchronize(Context& context);
std::vector<CompletionPtr> last_of_all(Context& context);

// CUDA_SUCCESS, or why the context cannot be used.
CUresult state_of(const Context& context);
// CUDA_SUCCESS, or why the driver cannot be used: not initialised, forked, shut down, …
CUresult state_of_driver();

// The stream of a handle, default streams included; null if there is none.
StreamPtr find_stream(Context& context, CUstream handle);

enum class Complaint { kSpoken, kSilent };
CUresult no_context(Complaint complaint);

// The frame of each exported function: `body` runs if the driver, the current context and the
// stream are usable.
template <class Body>
CUresult with_driver(Body&& body) {
  const Hidden hidden;
  const CUresult state = state_of_driver();
  return state != CUDA_SUCCESS ? state : body();
}

template <class Body>
CUresult with_context(Body&& body, Complaint complaint = Complaint::kSpoken) {
  return with_driver([&] {
    Context* const context = current_context();
    if (context == nullptr) return no_context(complaint);
    const CUresult state = state_of(*context);
    return state != CUDA_SUCCESS ? state : body(*context);
  });
}

template <class Body>
CUresult with_stream(CUstream handle, Body&& body) {
  return with_context([&](Context& context) {
    const StreamPtr stream = find_stream(context, handle);
    if (!stream)
      return misuse(CUDA_ERROR_INVALID_HANDLE, "no such stream: %p", static_cast<void*>(handle));
    return body(context, *stream);
  });
}

template <class Value, class Source>
CUresult store(Value* out, Source value) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<Value>(value);
  return CUDA_SUCCESS;
}

// ENTRY(cuMemAlloc)(…) defines what the exported function of that name jumps to. The compiler
// compares the parameters with those in cuda.h.
#define SIMGPU_ENTRY_NAMED(name)             \
  extern "C" decltype(::name) simgpu_##name; \
  extern "C" CUresult simgpu_##name
#define ENTRY(name) SIMGPU_ENTRY_NAMED(name)

}  // namespace simgpu
