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

// A call cut into segments: whole ones, at least one, and a last one of `rest` bytes unless that is
// 0.
struct Segments {
  std::uint64_t bytes = 0;  // of a whole one
  std::uint64_t whole = 1;
  std::uint64_t rest = 0;
};

inline Segments segments_of(const Choice& choice, const CallShape& shape) {
  const std::uint64_t bytes = std::min(choice.segment_bytes, shape.bytes);
  const std::uint64_t divisor = std::max<std::uint64_t>(bytes, 1);
  return {bytes, std::max<std::uint64_t>(shape.bytes / divisor, 1), shape.bytes % divisor};
}

}  // namespace gpuar
