// What ThreadSanitizer may know. It intercepts the simulator's own locks and would take them for
// ordering between the application's threads and the streams; a missing wait would go unseen. So
// the simulator is compiled without instrumentation, its internals run inside Hidden, and it
// declares only what CUDA itself orders: submission, dependency, completion.
#pragma once

namespace simgpu {

// The calling thread's locks and memory accesses are the simulator's own.
class Hidden {
 public:
  Hidden();
  ~Hidden();
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
};

// Within Hidden: the application's code, a copy or a kernel runs.
class Shown {
 public:
  Shown();
  ~Shown();
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

 private:
  int depth_;
};

// All that this thread did happens before whatever follows an acquire of the same address.
void declare_release(void* what);
void declare_acquire(void* what);

}  // namespace simgpu
