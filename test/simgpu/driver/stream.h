// Streams: each has a worker thread that runs its operations in order. Operations of different
// streams meet through completions alone.
#pragma once
#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "handles.h"

namespace simgpu {

struct Caller;
struct Context;

// The end of one operation.
class Completion {
 public:
  void begin();     // in the worker: what came before the submission is visible
  void submit();    // in the caller
  void finish();    // in the worker
  void wait();      // ordered after the operation
  bool finished();  // likewise if true
  bool peek() const { return state_.load(std::memory_order_acquire) != 0; }  // orders nothing
  int64_t nanoseconds() const { return time_; }

 private:
  std::atomic<uint32_t> state_{0};
  int64_t time_ = 0;
  char before_ = 0;  // its address stands for all that came before the submission
};
using CompletionPtr = std::shared_ptr<Completion>;

struct Task {
  std::vector<CompletionPtr> after;
  std::function<void()> work;
  CompletionPtr done;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Context& context, unsigned flags, int priority);

  Context& context() const { return context_; }
  unsigned flags() const { return flags_; }
  int priority() const { return priority_; }
  uint64_t id() const { return id_; }
  const Caller* maker() const { return maker_; }
  bool blocking() const { return (flags_ & CU_STREAM_NON_BLOCKING) == 0; }

  void push(Task task);  // starts the worker with the first
  CompletionPtr last();
  void stop();  // after what is queued

  CUstream handle = nullptr;

 private:
  static void run(const std::shared_ptr<Stream>& self);
  void delay();

  Context& context_;
  unsigned flags_;
  int priority_;
  uint64_t id_;
  const Caller* maker_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  CompletionPtr last_;
  bool started_ = false, stopped_ = false;
  std::minstd_rand random_;
};
using StreamPtr = std::shared_ptr<Stream>;

struct Event {
  Context& context;
  unsigned flags;
  const Caller* maker;
  std::mutex mutex;
  CompletionPtr recorded;
};

Handles<CUstream, Stream>& streams();
Handles<CUevent, Event>& events();

StreamPtr new_stream(Context& context, unsigned flags, int priority);

// Puts an operation into a stream: after what is in it, after `after`, and after what the legacy
// default stream orders. `work` may be empty.
CompletionPtr submit(Stream& stream, std::function<void()> work,
                     std::vector<CompletionPtr> after = {});

// Host functions must not call the driver.
bool in_host_function();

}  // namespace simgpu
