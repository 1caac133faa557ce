// Scratch memory in blocks of powers of two, kept for reuse.
#pragma once

#include <array>
#include <cstddef>
#include <unordered_map>
#include <vector>

namespace gpuar {

// Where a pool gets memory from. Both are called with the context current.
struct BlockSource {
  void* owner;
  std::byte* (*allocate)(void* owner, std::size_t bytes);  // nullptr: none left
  void (*free)(void* owner, std::byte* block);
  void (*lost)(void* owner, std::byte* block);  // its context is gone, and the memory with it
};

class BlockPool {
 public:
  explicit BlockPool(BlockSource source) : source_(source) {}

  // The size of the block that serves `bytes`; 0 if there is no such size.
  static std::size_t block_bytes(std::size_t bytes);

  // An idle block for `bytes`, nullptr if there is none.
  std::byte* take(std::size_t bytes);
  // A new block.
  std::byte* allocate(std::size_t bytes);
  // Keeps the block for reuse. False if it is none of this pool's.
  bool give(std::byte* block);
  // Frees idle blocks, largest first, until at most `keep` bytes of them are left.
  void trim(std::size_t keep);
  // Drops every block, also those in use, without freeing: their context is gone.
  void forget();
  // Frees every block, also those in use.
  void clear();

  std::size_t idle_bytes() const { return idle_bytes_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr unsigned smallest = 8;  // 256 bytes: device memory is aligned so anyway
  static constexpr unsigned largest = 46;
  static unsigned power_of(std::size_t bytes);
  void drop_all();

  BlockSource source_;
  std::array<std::vector<std::byte*>, largest + 1> idle_;  // by power of two
  std::unordered_map<std::byte*, unsigned> power_;         // of every block
  std::size_t idle_bytes_ = 0;
  std::size_t bytes_ = 0;  // idle and in use
};

}  // namespace gpuar
