// Streams and events as the application handles them.
#include <cuda.h>
#include <sched.h>

#include <cmath>

#include "context.h"

namespace simgpu {
namespace {

thread_local bool host_function = false;

CUresult no_event() {
  return misuse(CUDA_ERROR_INVALID_HANDLE, "no such event");
}

CompletionPtr recorded(Event& event) {
  const std::lock_guard lock(event.mutex);
  return event.recorded;
}

template <class Body>
CUresult with_event(CUevent handle, Body&& body) {
  return with_driver([&] {
    const std::shared_ptr<Event> event = events().find(handle);
    return event ? body(*event) : no_event();
  });
}

CUresult outcome(const Context& context) {
  return static_cast<CUresult>(context.failure.load());
}

// Polling must not starve the threads that are polled.
CUresult not_ready() {
  sched_yield();
  return CUDA_ERROR_NOT_READY;
}

CUresult create_stream(CUstream* out, unsigned flags, int priority) {
  return with_context([&](Context& context) {
    if ((flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
    const StreamPtr stream = new_stream(context, flags, priority);
    stream->handle = streams().add(stream);
    return store(out, stream->handle);
  });
}

CUresult run_host_function(CUstream handle, std::function<void()> function) {
  return with_stream(handle, [&](Context&, Stream& stream) {
    submit(stream, [function = std::move(function)] {
      const Shown shown;
      host_function = true;
      function();
      host_function = false;
    });
    return CUDA_SUCCESS;
  });
}

CUresult elapsed(float* out, CUevent from, CUevent to) {
  return with_driver([&] {
    const std::shared_ptr<Event> first = events().find(from), second = events().find(to);
    if (!first || !second) return no_event();
    const CompletionPtr begin = recorded(*first), end = recorded(*second);
    if (!begin || !end || ((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING) != 0)
      return misuse(CUDA_ERROR_INVALID_HANDLE, "time between events that take none");
    if (!begin->finished() || !end->finished()) return not_ready();
    return store(out, static_cast<double>(end->nanoseconds() - begin->nanoseconds()) * 1e-6);
  });
}

CUresult record(CUevent handle, CUstream stream_handle) {
  return with_stream(stream_handle, [&](Context&, Stream& stream) {
    const std::shared_ptr<Event> event = events().find(handle);
    if (!event) return no_event();
    if (&event->context != &stream.context())
      return misuse(CUDA_ERROR_INVALID_HANDLE, "event and stream are of different contexts");
    CompletionPtr done = submit(stream, {});
    const std::lock_guard lock(event->mutex);
    event->recorded = std::move(done);
    return CUDA_SUCCESS;
  });
}

}  // namespace

bool in_host_function() {
  return host_function;
}

ENTRY(cuStreamCreate)(CUstream* out, unsigned flags) {
  return create_stream(out, flags, 0);
}

ENTRY(cuStreamCreateWithPriority)(CUstream* out, unsigned flags, int priority) {
  return create_stream(out, flags, priority);
}

ENTRY(cuStreamDestroy)(CUstream handle) {
  return with_driver([&] {
    const StreamPtr stream = streams().remove(handle);
    if (!stream) return misuse(CUDA_ERROR_INVALID_HANDLE, "no such stream to destroy");
    Context& context = stream->context();
    {
      const std::lock_guard lock(context.mutex);
      std::erase(context.streams, stream);
      if (CompletionPtr last = stream->last()) context.draining.push_back(std::move(last));
    }
    stream->stop();
    return CUDA_SUCCESS;
  });
}

ENTRY(cuStreamQuery)(CUstream handle) {
  return with_stream(handle, [&](Context&, Stream& stream) {
    const CompletionPtr last = stream.last();
    return !last || last->finished() ? outcome(stream.context()) : not_ready();
  });
}

ENTRY(cuStreamSynchronize)(CUstream handle) {
  return with_stream(handle, [&](Context& context, Stream& stream) {
    const CompletionPtr last = &stream == context.legacy.get() ? submit(stream, {}) : stream.last();
    if (last) last->wait();
    return outcome(stream.context());
  });
}

ENTRY(cuStreamGetCtx)(CUstream handle, CUcontext* out) {
  return with_stream(handle,
                     [&](Context&, Stream& stream) { return store(out, stream.context().handle); });
}

ENTRY(cuStreamGetCtx_v2)(CUstream handle, CUcontext* out, CUgreenCtx* green) {
  return with_stream(handle, [&](Context&, Stream& stream) {
    if (green != nullptr) *green = nullptr;
    return store(out, stream.context().handle);
  });
}

ENTRY(cuStreamGetFlags)(CUstream handle, unsigned* out) {
  return with_stream(handle, [&](Context&, Stream& stream) { return store(out, stream.flags()); });
}

ENTRY(cuStreamGetPriority)(CUstream handle, int* out) {
  return with_stream(handle,
                     [&](Context&, Stream& stream) { return store(out, stream.priority()); });
}

ENTRY(cuStreamGetId)(CUstream handle, unsigned long long* out) {
  return with_stream(handle, [&](Context&, Stream& stream) { return store(out, stream.id()); });
}

ENTRY(cuStreamGetDevice)(CUstream handle, CUdevice* out) {
  return with_stream(handle,
                     [&](Context&, Stream& stream) { return store(out, stream.context().device); });
}

// Nothing is ever captured.
ENTRY(cuStreamIsCapturing)(CUstream handle, CUstreamCaptureStatus* out) {
  return with_stream(handle,
                     [&](Context&, Stream&) { return store(out, CU_STREAM_CAPTURE_STATUS_NONE); });
}

ENTRY(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode* mode) {
  return with_driver([&] { return store(mode, CU_STREAM_CAPTURE_MODE_GLOBAL); });
}

ENTRY(cuStreamWaitEvent)(CUstream handle, CUevent event_handle, unsigned) {
  return with_stream(handle, [&](Context&, Stream& stream) {
    const std::shared_ptr<Event> event = events().find(event_handle);
    if (!event) return no_event();
    if (CompletionPtr done = recorded(*event)) submit(stream, {}, {std::move(done)});
    return CUDA_SUCCESS;
  });
}

ENTRY(cuLaunchHostFunc)(CUstream handle, CUhostFn function, void* argument) {
  return run_host_function(handle, [=] { function(argument); });
}

ENTRY(cuStreamAddCallback)
(CUstream handle, CUstreamCallback function, void* argument, unsigned) {
  return run_host_function(handle, [=] { function(handle, CUDA_SUCCESS, argument); });
}

ENTRY(cuEventCreate)(CUevent* out, unsigned flags) {
  return with_context([&](Context& context) {
    return store(out, events().add(std::shared_ptr<Event>(
                          new Event{context, flags, current_caller(), {}, nullptr})));
  });
}

ENTRY(cuEventDestroy)(CUevent handle) {
  return with_driver([&] {
    const std::shared_ptr<Event> event = events().remove(handle);
    if (!event) return no_event();
    const CompletionPtr done = recorded(*event);
    if (done && !done->peek() && strict_about(event->maker))
      return misuse(CUDA_SUCCESS, "an event is destroyed that is not finished");
    return CUDA_SUCCESS;
  });
}

ENTRY(cuEventRecord)(CUevent event, CUstream stream) {
  return record(event, stream);
}

ENTRY(cuEventRecordWithFlags)(CUevent event, CUstream stream, unsigned) {
  return record(event, stream);
}

// All work of the context so far.
ENTRY(cuCtxRecordEvent)(CUcontext handle, CUevent event_handle) {
  return with_driver([&] {
    Context* const context = find_context(handle);
    if (context == nullptr || !context->alive)
      return misuse(CUDA_ERROR_INVALID_CONTEXT, "no such context to record");
    const std::shared_ptr<Event> event = events().find(event_handle);
    if (!event) return no_event();
    if (&event->context != context)
      return misuse(CUDA_ERROR_INVALID_HANDLE, "the event is of another context");
    CompletionPtr done = submit(*context->markers, {}, last_of_all(*context));
    const std::lock_guard lock(event->mutex);
    event->recorded = std::move(done);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuEventQuery)(CUevent handle) {
  return with_event(handle, [](Event& event) {
    const CompletionPtr done = recorded(event);
    return !done || done->finished() ? outcome(event.context) : not_ready();
  });
}

ENTRY(cuEventSynchronize)(CUevent handle) {
  return with_event(handle, [](Event& event) {
    if (const CompletionPtr done = recorded(event)) done->wait();
    return outcome(event.context);
  });
}

ENTRY(cuEventElapsedTime)(float* out, CUevent from, CUevent to) {
  return elapsed(out, from, to);
}

extern "C" CUresult simgpu_cuEventElapsedTime(float* out, CUevent from, CUevent to) {
  return elapsed(out, from, to);
}

}  // namespace simgpu
