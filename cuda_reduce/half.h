// The two 16-bit floating types: IEEE binary16 (fp16) and bfloat16. One operation widens to float,
// computes there and rounds once, to nearest even; the result is the correctly rounded one, since
// float has more than twice the digits of either. Conversions are own integer and float arithmetic,
// without branches: the same bits from every compiler, and loops over them vectorise.
//
// NaN stays NaN: its quiet bit is set and its upper payload is kept, as by the x86 instructions
// (F16C), which the host kernels use where they are.
#pragma once

#include <cstdint>
#include <type_traits>

// Always inlined on the host: the host kernels are compiled for several instruction sets, and an
// out-of-line copy from one of them could be linked into code that must run on an older processor.
#if defined(__CUDACC__)
#define GPUAR_HD __host__ __device__ __forceinline__
#else
#define GPUAR_HD [[gnu::always_inline]] inline
#endif

namespace gpuar {

// Bit patterns of float.
constexpr std::uint32_t float_sign = 0x80000000;
constexpr std::uint32_t float_infinity = 0x7f800000;
constexpr int float_mantissa_bits = 23;

struct Float16 {
  std::uint16_t bits;

  static constexpr int lost_bits = 13;                        // of float's mantissa
  static constexpr std::uint32_t rebias = (127 - 15) << 23U;  // of the exponent

  // Exact. A subnormal fp16 is a fixed-point number; put behind a float's leading 2^-14 and with
  // that taken off again, it comes out normalised.
  GPUAR_HD float widen() const {
    constexpr std::uint32_t exponent = 0x1fU << 23U;
    constexpr std::uint32_t smallest = rebias + (1U << 23U);  // 2^-14
    const std::uint32_t magnitude = (bits & 0x7fffU) << lost_bits;
    const float subnormal =
        __builtin_bit_cast(float, magnitude + smallest) - __builtin_bit_cast(float, smallest);
    const std::uint32_t quiet = magnitude > exponent ? 1U << 22U : 0U;
    const std::uint32_t wide =
        (magnitude >= exponent ? magnitude + 2 * rebias : magnitude + rebias);
    const std::uint32_t result =
        magnitude < (1U << 23U) ? __builtin_bit_cast(std::uint32_t, subnormal) : wide | quiet;
    return __builtin_bit_cast(float, result | ((bits & 0x8000U) << 16U));
  }

  // Rounds to nearest even. Below 2^-14 an addition does it: the sum with 0.5 has its last digit
  // where a subnormal fp16 has it.
  GPUAR_HD static Float16 round(float value) {
    constexpr std::uint32_t too_large = (127 + 16) << 23U;  // 2^16
    constexpr std::uint32_t smallest = rebias + (1U << 23U);
    constexpr std::uint32_t half = 126U << 23U;
    const std::uint32_t all = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t magnitude = all & ~float_sign;
    const std::uint32_t odd = (magnitude >> lost_bits) & 1U;
    const std::uint32_t normal = (magnitude - rebias + 0xfffU + odd) >> lost_bits;
    const float shifted = __builtin_bit_cast(float, magnitude) + __builtin_bit_cast(float, half);
    const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - half;
    const std::uint32_t nan = 0x7e00U | ((magnitude >> lost_bits) & 0x3ffU);
    const std::uint32_t special = magnitude > float_infinity ? nan : 0x7c00U;
    const std::uint32_t finite = magnitude < smallest ? subnormal : normal;
    const std::uint32_t result = magnitude >= too_large ? special : finite;
    return {static_cast<std::uint16_t>(result | (all >> 16U & 0x8000U))};
  }
};

struct BFloat16 {
  std::uint16_t bits;

  GPUAR_HD float widen() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16U);
  }

  // Rounds to nearest even; a carry out of the largest number gives infinity.
  GPUAR_HD static BFloat16 round(float value) {
    const std::uint32_t all = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t nearest = all + 0x7fffU + (all >> 16U & 1U);
    const std::uint32_t result = (all & ~float_sign) > float_infinity ? all | 1U << 22U : nearest;
    return {static_cast<std::uint16_t>(result >> 16U)};
  }
};

template <class T>
concept Half = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

template <Half T>
GPUAR_HD T operator+(T left, T right) {
  return T::round(left.widen() + right.widen());
}
template <Half T>
GPUAR_HD T operator*(T left, T right) {
  return T::round(left.widen() * right.widen());
}

// Numbers are ordered as the integers that their sign and magnitude make, in 16 bits throughout.
// Both zeros are the same, and NaN is not ordered.
template <Half T>
GPUAR_HD bool operator<(T left, T right) {
  constexpr std::int16_t infinity = std::is_same_v<T, Float16> ? 0x7c00 : 0x7f80;
  constexpr std::int16_t magnitude = 0x7fff;
  const auto a = static_cast<std::int16_t>(left.bits);
  const auto b = static_cast<std::int16_t>(right.bits);
  const auto order_a = static_cast<std::int16_t>(a ^ ((a >> 15) & magnitude));
  const auto order_b = static_cast<std::int16_t>(b ^ ((b >> 15) & magnitude));
  const auto magnitude_a = static_cast<std::int16_t>(a & magnitude);
  const auto magnitude_b = static_cast<std::int16_t>(b & magnitude);
  const auto either = static_cast<std::int16_t>(magnitude_a | magnitude_b);
  return (magnitude_a <= infinity) & (magnitude_b <= infinity) & (order_a < order_b) &
         (either != 0);
}
template <Half T>
GPUAR_HD bool operator>(T left, T right) {
  return right < left;
}

}  // namespace gpuar
