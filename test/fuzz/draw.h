// Random choices that every rank makes alike: a series that its seed determines.
#pragma once

#include <cstddef>
#include <cstdint>

#include "test/mpi/harness.h"

namespace fuzz {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() { return state_ = mpitest::mix(state_); }
  // 0 … n - 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits() >> 16U) % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace fuzz
