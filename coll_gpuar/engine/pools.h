// Pools: after warm-up a call allocates nothing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <new>
#include <vector>

namespace gpuar {

// Objects that are handed out again as they were given back. Addresses are stable.
template <class T>
class ObjectPool {
 public:
  T* take() {
    if (free_.empty()) {
      T* fresh = &all_.emplace_back();
      free_.reserve(all_.size());
      return fresh;
    }
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) { free_.push_back(object); }

 private:
  std::deque<T> all_;
  std::vector<T*> free_;  // capacity for all, so that give() never allocates
};

// Memory for scratch slots and stashed messages, in powers of two, cache-line aligned. What is
// given back is kept up to a bound: temporaries made per call would be faulted in page by page.
class ScratchPool {
 public:
  static constexpr std::size_t smallest = 256;
  static constexpr std::size_t default_bound = std::size_t{256} << 20;

  explicit ScratchPool(std::size_t bound = default_bound) : bound_(bound) {}
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() { release(); }

  // nullptr when there is no memory.
  std::byte* take(std::size_t bytes) {
    const std::size_t cls = class_of(bytes);
    std::vector<std::byte*>& list = free_[cls];
    if (list.empty()) return allocate(cls);
    std::byte* block = list.back();
    list.pop_back();
    cached_ -= smallest << cls;
    return block;
  }

  void give(std::byte* block, std::size_t bytes) {
    const std::size_t cls = class_of(bytes);
    if (cached_ + (smallest << cls) > bound_) {
      std::free(block);
      return;
    }
    cached_ += smallest << cls;
    free_[cls].push_back(block);
  }

  // Gives all cached memory back to the system.
  void release() {
    for (std::vector<std::byte*>& list : free_) {
      for (std::byte* block : list) std::free(block);
      list.clear();
    }
    cached_ = 0;
  }

  std::size_t cached() const { return cached_; }

 private:
  static constexpr std::size_t classes = 48;

  static std::size_t class_of(std::size_t bytes) {
    if (bytes <= smallest) return 0;
    return static_cast<std::size_t>(std::bit_width((bytes - 1) / smallest));
  }

  static std::byte* allocate(std::size_t cls) {
    constexpr std::size_t alignment = 64;
    return static_cast<std::byte*>(std::aligned_alloc(alignment, smallest << cls));
  }

  std::array<std::vector<std::byte*>, classes> free_;
  std::size_t cached_ = 0;
  std::size_t bound_;
};

}  // namespace gpuar
