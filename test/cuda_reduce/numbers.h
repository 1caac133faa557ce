// Numbers of the tests: the 16-bit types worked out by exact arithmetic, and what an average is.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace reference {

template <class T>
constexpr bool is_complex = false;
template <class T>
constexpr bool is_complex<std::complex<T>> = true;

// A 16-bit floating type, by its exact values: every one of them is a double.
template <int exponent_bits, int mantissa_bits>
struct Narrow {
  std::uint16_t bits;

  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int special = (1 << exponent_bits) - 1;

  [[nodiscard]] double value() const {
    const int exponent = (bits >> mantissa_bits) & special;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    double magnitude = std::ldexp(mantissa, 1 - bias - mantissa_bits);
    if (exponent != 0)
      magnitude = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
    if (exponent == special)
      magnitude = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                                : std::numeric_limits<double>::infinity();
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }

  // The number nearest to a double, the even one of two.
  static Narrow nearest(double exact) {
    const int sign = std::signbit(exact) ? 0x8000 : 0;
    const auto with = [&](int magnitude) { return Narrow{std::uint16_t(sign | magnitude)}; };
    if (std::isnan(exact)) return with((special << mantissa_bits) | 1 << (mantissa_bits - 1));
    if (std::isinf(exact)) return with(special << mantissa_bits);
    const int exponent = std::max(exact == 0 ? -2000 : std::ilogb(exact), 1 - bias);
    const double digits = std::nearbyint(std::ldexp(std::fabs(exact), mantissa_bits - exponent));
    // Digits of one more than the mantissa holds carry into the exponent field, as they should.
    const double magnitude = digits + std::ldexp(exponent + bias - 1, mantissa_bits);
    return with(static_cast<int>(std::min(magnitude, std::ldexp(special, mantissa_bits))));
  }
};
using Half = Narrow<5, 10>;
using Brain = Narrow<8, 7>;
template <class T>
constexpr bool is_narrow = false;
template <int e, int m>
constexpr bool is_narrow<Narrow<e, m>> = true;

// The bytes of a number that count: an x87 number fills 10 of its 16.
template <class T>
constexpr std::size_t value_bytes() {
  return std::is_same_v<T, long double> && std::numeric_limits<T>::digits == 64 ? 10 : sizeof(T);
}

// Bit by bit, what counts of them.
template <class T>
bool same_bits(const T* a, const T* b, std::size_t count) {
  const auto* x = reinterpret_cast<const unsigned char*>(a);
  const auto* y = reinterpret_cast<const unsigned char*>(b);
  for (std::size_t i = 0; i < count * sizeof(T); i += sizeof(T))
    if (!std::equal(x + i, x + i + value_bytes<T>(), y + i)) return false;
  return true;
}

// What makes an average of a sum.
template <class T>
T divide(T sum, int ranks) {
  if constexpr (is_narrow<T>)
    return T::nearest(sum.value() / ranks);
  else if constexpr (is_complex<T>)
    return {divide(sum.real(), ranks), divide(sum.imag(), ranks)};
  else
    return sum / static_cast<T>(ranks);
}

}  // namespace reference
