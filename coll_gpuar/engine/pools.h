// Pools: after warm-up a call allocates nothing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace gpuar {

// Objects that are handed out again as they were given back. Addresses are stable. Grows by many at
// a time: how many are in use at once varies with timing, and a call after warm-up should not be
// the one to find out.
template <class T>
class ObjectPool {
 public:
  // nullptr when there is no memory.
  T* take() noexcept {
    if (free_.empty() && !grow()) return nullptr;
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) { free_.push_back(object); }

  [[nodiscard]] std::size_t in_use() const { return blocks_.size() * block - free_.size(); }

 private:
  static constexpr std::size_t block = 64;

  bool grow() noexcept try {
    free_.reserve((blocks_.size() + 1) * block);  // so that give() never allocates
    blocks_.push_back(std::make_unique<T[]>(block));
    for (std::size_t i = block; i > 0; --i) free_.push_back(&blocks_.back()[i - 1]);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  std::vector<std::unique_ptr<T[]>> blocks_;
  std::vector<T*> free_;
};

// Memory for scratch slots and stashed messages, in powers of two, cache-line aligned. What is
// given back is kept up to a bound: temporaries made per call would be faulted in page by page.
// Small blocks come by the slab and are kept until the end.
class ScratchPool {
 public:
  static constexpr std::size_t smallest = 256;
  static constexpr std::size_t slab = std::size_t{64} << 10;
  static constexpr std::size_t default_bound = std::size_t{256} << 20;

  explicit ScratchPool(std::size_t bound = default_bound) : bound_(bound) {}
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() {
    release();
    for (std::byte* memory : slabs_) std::free(memory);
  }

  // nullptr when there is no memory.
  std::byte* take(std::size_t bytes) {
    Class& cls = classes_[class_of(bytes)];
    if (cls.free.empty() && !grow(cls, block_bytes(bytes))) return nullptr;
    std::byte* block = cls.free.back();
    cls.free.pop_back();
    if (is_large(bytes)) cached_ -= block_bytes(bytes);
    return block;
  }

  void give(std::byte* block, std::size_t bytes) {
    Class& cls = classes_[class_of(bytes)];
    if (is_large(bytes)) {
      if (cached_ + block_bytes(bytes) > bound_) {
        --cls.blocks;
        std::free(block);
        return;
      }
      cached_ += block_bytes(bytes);
    }
    cls.free.push_back(block);
  }

  // Gives all cached large blocks back to the system.
  void release() {
    for (std::size_t i = class_of(slab); i < classes_.size(); ++i) {
      Class& cls = classes_[i];
      for (std::byte* block : cls.free) std::free(block);
      cls.blocks -= cls.free.size();
      cls.free.clear();
    }
    cached_ = 0;
  }

  // Bytes in large blocks that wait for use.
  std::size_t cached() const { return cached_; }

 private:
  struct Class {
    std::vector<std::byte*> free;  // capacity for all blocks, so that give() never allocates
    std::size_t blocks = 0;
  };

  static std::size_t class_of(std::size_t bytes) {
    if (bytes <= smallest) return 0;
    return static_cast<std::size_t>(std::bit_width((bytes - 1) / smallest));
  }
  static std::size_t block_bytes(std::size_t bytes) { return smallest << class_of(bytes); }
  static bool is_large(std::size_t bytes) { return block_bytes(bytes) >= slab; }

  bool grow(Class& cls, std::size_t bytes) noexcept try {
    constexpr std::size_t alignment = 64;
    const std::size_t count = bytes < slab ? slab / bytes : 1;
    cls.free.reserve(cls.blocks + count);
    slabs_.reserve(slabs_.size() + 1);
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, count * bytes));
    if (!memory) return false;
    if (bytes < slab) slabs_.push_back(memory);
    cls.blocks += count;
    for (std::size_t i = count; i > 0; --i) cls.free.push_back(memory + (i - 1) * bytes);
    if (bytes >= slab) cached_ += bytes;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  std::array<Class, 48> classes_;
  std::vector<std::byte*> slabs_;
  std::size_t cached_ = 0;  // of large blocks
  std::size_t bound_;
};

}  // namespace gpuar
