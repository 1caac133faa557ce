// What the application holds: numbers that are never used twice, so that a stale one is noticed
// always, and no addresses, so that looking inside one faults.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace simgpu {

inline uintptr_t next_handle() {
  static std::atomic<uintptr_t> serial{1};
  constexpr uintptr_t kNoAddress = 0x51c0'0000'0000'0000;  // not canonical: faults
  return kNoAddress | serial++ << 4;
}

template <class Handle, class Object>
class Handles {
 public:
  using Pointer = std::shared_ptr<Object>;

  Handle add(Pointer object) {
    const auto handle = reinterpret_cast<Handle>(next_handle());
    const std::unique_lock lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  Pointer find(Handle handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  Pointer remove(Handle handle) {
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    Pointer object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  template <class Predicate>
  void remove_if(Predicate&& gone) {
    const std::unique_lock lock(mutex_);
    std::erase_if(objects_, [&](const auto& item) { return gone(*item.second); });
  }

  std::vector<Pointer> all() const {
    const std::shared_lock lock(mutex_);
    std::vector<Pointer> found;
    for (const auto& item : objects_) found.push_back(item.second);
    return found;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<Handle, Pointer> objects_;
};

}  // namespace simgpu
