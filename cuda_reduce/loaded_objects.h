// Notices, for a handful of instructions a call, that the process may have loaded libraries.
#pragma once

#include <atomic>
#include <mutex>

struct link_map;  // of the dynamic linker

namespace gpuar {

// The dynamic linker keeps the objects of a process (of a namespace: dlmopen) in a list, and
// appends new ones. So while the newest object has no successor, nothing has been loaded since.
// That object is held by a handle of our own: it cannot be unloaded and its link stays readable.
class LoadedObjects {
 public:
  LoadedObjects();
  ~LoadedObjects();
  LoadedObjects(const LoadedObjects&) = delete;
  LoadedObjects& operator=(const LoadedObjects&) = delete;

  // Whether an object may have been loaded since catch_up(). Any thread.
  bool have_grown() const noexcept { return *newer_.load(std::memory_order_acquire) != nullptr; }
  // Takes hold of the newest object. What was loaded before the call counts as seen.
  void catch_up() noexcept;
  // have_grown() is true from now on: for whoever has found what it was looking for.
  void stop() noexcept;

 private:
  std::mutex mutex_;
  link_map* own_;
  void* held_[2] = {};  // the newest object, and the one before
  std::atomic<link_map* const volatile*> newer_;
};

}  // namespace gpuar
