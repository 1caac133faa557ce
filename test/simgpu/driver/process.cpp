#include "process.h"

#include <cuda.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "context.h"
#include "memory.h"
#include "module.h"
#include "settings.h"

namespace simgpu {
namespace {

std::atomic<bool> initialised{false}, forked{false}, shut_down{false};

bool initialise() {
  if (!reserve_window()) return false;
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  initialised = true;
  return true;
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kDevice:
      return "device memory";
    case Kind::kManaged:
      return "managed memory";
    case Kind::kPinned:
      return "pinned memory";
    case Kind::kRegistered:
      return "registered memory";
    case Kind::kImported:
      return "imported memory";
    case Kind::kPool:
      return "pool memory";
    default:
      return "mapped memory";
  }
}

// What was made and never destroyed, as far as SIMGPU_STRICT asks.
size_t report_left() {
  size_t left = 0;
  const auto report = [&](const Caller* maker, const std::string& what) {
    if (!strict_about(maker)) return;
    fprintf(stderr, "simgpu[%d]: left at exit: %s of %s\n", static_cast<int>(getpid()),
            what.c_str(), object_of(maker));
    left++;
  };
  for_each_allocation([&](const Allocation& a) {
    report(a.maker, std::to_string(a.size) + " bytes of " + name_of(a.kind));
  });
  for (const StreamPtr& stream : streams().all()) report(stream->maker(), "a stream");
  for (const auto& event : events().all()) report(event->maker, "an event");
  for (const auto& module : modules().all()) report(module->maker, "a module");
  for_each_left_context([&](const Context& context) {
    report(context.maker, context.primary ? "a retained primary context" : "a context");
  });
  return left;
}

// After the destructors of what uses this library: as in the driver, calls are refused now.
[[gnu::destructor]] void shut() {
  const Hidden hidden;
  shut_down = true;
  if (forked) return;
  report_counters();
  if (report_left() == 0) return;
  fflush(nullptr);
  _exit(70);
}

}  // namespace

int device_count() {
  return static_cast<int>(settings().visible.size());
}

int physical(int device) {
  return settings().visible[static_cast<size_t>(device)];
}

int device_of_physical(int wanted) {
  for (int i = 0; i < device_count(); i++)
    if (physical(i) == wanted) return i;
  return -1;
}

bool can_access(int device, int other) {
  return settings().peers && device != other;
}

CUresult state_of_driver() {
  if (shut_down) return CUDA_ERROR_DEINITIALIZED;
  if (forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (in_host_function())
    return misuse(CUDA_ERROR_NOT_PERMITTED, "a host function of a stream calls the driver");
  return CUDA_SUCCESS;
}

ENTRY(cuInit)(unsigned flags) {
  const Hidden hidden;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (shut_down) return CUDA_ERROR_DEINITIALIZED;
  if (forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (device_count() == 0) return CUDA_ERROR_NO_DEVICE;
  static const bool ready = initialise();
  return ready ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace simgpu
