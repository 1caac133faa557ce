// Arithmetic on times and sizes that stays at the largest number instead of wrapping.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "coll_gpuar/selection/select.h"

namespace gpuar {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? most : product;
}

constexpr std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? most : sum;
}

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

inline std::uint64_t element_of(const CallShape& shape) {
  return std::max<std::uint64_t>(shape.element_bytes, 1);
}

}  // namespace gpuar
