#include "stream.h"

#include <pthread.h>

#include <chrono>
#include <thread>

#include "calls.h"
#include "context.h"
#include "ordering.h"
#include "settings.h"

namespace simgpu {
namespace {

std::atomic<uint64_t> next_id{1};

int64_t now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace

void Completion::submit() {
  declare_release(&before_);
}
void Completion::begin() {
  declare_acquire(&before_);
}

void Completion::finish() {
  declare_release(this);
  time_ = now();
  state_.store(1, std::memory_order_release);
  state_.notify_all();
}

void Completion::wait() {
  state_.wait(0, std::memory_order_acquire);
  declare_acquire(this);
}

bool Completion::finished() {
  if (!peek()) return false;
  declare_acquire(this);
  return true;
}

Handles<CUstream, Stream>& streams() {
  static auto* const all = new Handles<CUstream, Stream>;
  return *all;
}

Handles<CUevent, Event>& events() {
  static auto* const all = new Handles<CUevent, Event>;
  return *all;
}

Stream::Stream(Context& context, unsigned flags, int priority)
    : context_(context),
      flags_(flags),
      priority_(priority),
      id_(next_id++),
      maker_(current_caller()),
      random_(settings().seed * 7919U + static_cast<unsigned>(id_)) {}

CompletionPtr Stream::last() {
  const std::lock_guard lock(mutex_);
  return last_;
}

void Stream::push(Task task) {
  std::unique_lock lock(mutex_);
  if (settings().execution == Execution::kInline) {
    if (last_ && !last_->peek()) task.after.push_back(last_);
    bool ready = true;
    for (const CompletionPtr& other : task.after) ready = ready && other->peek();
    if (ready) {
      last_ = task.done;
      lock.unlock();
      if (task.work) task.work();
      task.done->finish();
      return;
    }
  }
  last_ = task.done;
  queue_.push_back(std::move(task));
  changed_.notify_one();
  if (started_) return;
  started_ = true;
  const Shown shown;  // ThreadSanitizer must see the thread begin
  std::thread(run, shared_from_this()).detach();
}

void Stream::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_one();
}

void Stream::delay() {
  if (settings().delay_us == 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % settings().delay_us));
}

void Stream::run(const std::shared_ptr<Stream>& self) {
  pthread_setname_np(pthread_self(), "simgpu-stream");
  const Hidden hidden;
  for (;;) {
    Task task;
    {
      std::unique_lock lock(self->mutex_);
      self->changed_.wait(lock, [&] { return self->stopped_ || !self->queue_.empty(); });
      if (self->queue_.empty()) return;
      task = std::move(self->queue_.front());
      self->queue_.pop_front();
    }
    for (const CompletionPtr& other : task.after) other->wait();
    task.done->begin();
    if (task.work) {
      self->delay();
      task.work();
    }
    task.done->finish();
  }
}

StreamPtr new_stream(Context& context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>(context, flags, priority);
  const std::lock_guard lock(context.mutex);
  context.streams.push_back(stream);
  return stream;
}

CompletionPtr submit(Stream& stream, std::function<void()> work, std::vector<CompletionPtr> after) {
  Context& context = stream.context();
  Task task{std::move(after), std::move(work), std::make_shared<Completion>()};
  CompletionPtr done = task.done;
  done->submit();
  {
    const std::lock_guard lock(context.mutex);
    if (&stream == context.legacy.get()) {
      for (const StreamPtr& other : context.streams)
        if (other.get() != &stream && other->blocking())
          if (CompletionPtr last = other->last()) task.after.push_back(std::move(last));
    } else if (stream.blocking()) {
      if (CompletionPtr last = context.legacy->last()) task.after.push_back(std::move(last));
    }
  }
  stream.push(std::move(task));
  return done;
}

}  // namespace simgpu
