#include "cuda_reduce/block_pool.h"

#include <algorithm>
#include <bit>
#include <new>

namespace gpuar {

unsigned BlockPool::power_of(std::size_t bytes) {
  return std::max(smallest,
                  static_cast<unsigned>(std::bit_width(std::max<std::size_t>(bytes, 1) - 1)));
}

std::size_t BlockPool::block_bytes(std::size_t bytes) {
  const unsigned power = power_of(bytes);
  return power > largest ? 0 : std::size_t{1} << power;
}

std::byte* BlockPool::take(std::size_t bytes) {
  const unsigned power = power_of(bytes);
  if (power > largest || idle_[power].empty()) return nullptr;
  std::byte* block = idle_[power].back();
  idle_[power].pop_back();
  idle_bytes_ -= std::size_t{1} << power;
  return block;
}

std::byte* BlockPool::allocate(std::size_t bytes) {
  const unsigned power = power_of(bytes);
  if (power > largest) return nullptr;
  std::byte* block = nullptr;
  try {
    idle_[power].reserve(power_.size() + 1);  // so that give() takes no memory
    block = source_.allocate(source_.owner, std::size_t{1} << power);
    if (block == nullptr) return nullptr;
    power_[block] = power;
  } catch (const std::bad_alloc&) {
    if (block != nullptr) source_.free(source_.owner, block);
    return nullptr;
  }
  bytes_ += std::size_t{1} << power;
  return block;
}

bool BlockPool::give(std::byte* block) {
  const auto known = power_.find(block);
  if (known == power_.end()) return false;
  idle_[known->second].push_back(block);
  idle_bytes_ += std::size_t{1} << known->second;
  return true;
}

void BlockPool::trim(std::size_t keep) {
  for (unsigned power = largest; power >= smallest && idle_bytes_ > keep; --power) {
    while (!idle_[power].empty() && idle_bytes_ > keep) {
      std::byte* block = take(std::size_t{1} << power);
      power_.erase(block);
      bytes_ -= std::size_t{1} << power;
      source_.free(source_.owner, block);
    }
  }
}

void BlockPool::forget() {
  for (const auto& [block, power] : power_) source_.lost(source_.owner, block);
  drop_all();
}

void BlockPool::drop_all() {
  for (auto& blocks : idle_) blocks.clear();
  power_.clear();
  idle_bytes_ = 0;
  bytes_ = 0;
}

void BlockPool::clear() {
  for (const auto& [block, power] : power_) source_.free(source_.owner, block);
  drop_all();
}

}  // namespace gpuar
