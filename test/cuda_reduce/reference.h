// What the reductions must give, worked out one element at a time in ordinary C++: no code in
// common with the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "cuda_reduce/types.h"
#include "test/cuda_reduce/numbers.h"

namespace reference {

// clang-format off
struct FloatInt { float value; int index; };
struct DoubleInt { double value; int index; };
struct LongDoubleInt { long double value; int index; };
struct LongInt { long value; int index; };
struct ShortInt { short value; int index; };
struct TwoInt { int value; int index; };
struct TwoFloat { float value; float index; };
struct TwoDouble { double value; double index; };
// clang-format on

template <class T>
concept PairLike = requires(T pair) {
  pair.value;
  pair.index;
};
// Calls visit.operator()<T>(type) with the C++ type of every gpuar_type.
template <class Visit>
void for_each_type(Visit&& visit) {
  visit.template operator()<std::int8_t>(GPUAR_INT8);
  visit.template operator()<std::int16_t>(GPUAR_INT16);
  visit.template operator()<std::int32_t>(GPUAR_INT32);
  visit.template operator()<std::int64_t>(GPUAR_INT64);
  visit.template operator()<std::uint8_t>(GPUAR_UINT8);
  visit.template operator()<std::uint16_t>(GPUAR_UINT16);
  visit.template operator()<std::uint32_t>(GPUAR_UINT32);
  visit.template operator()<std::uint64_t>(GPUAR_UINT64);
  visit.template operator()<Half>(GPUAR_FLOAT16);
  visit.template operator()<Brain>(GPUAR_BFLOAT16);
  visit.template operator()<float>(GPUAR_FLOAT32);
  visit.template operator()<double>(GPUAR_FLOAT64);
  visit.template operator()<long double>(GPUAR_LONG_DOUBLE);
  visit.template operator()<std::complex<float>>(GPUAR_COMPLEX_FLOAT32);
  visit.template operator()<std::complex<double>>(GPUAR_COMPLEX_FLOAT64);
  visit.template operator()<std::complex<long double>>(GPUAR_COMPLEX_LONG_DOUBLE);
  visit.template operator()<std::uint8_t>(GPUAR_BOOL);
  visit.template operator()<std::uint8_t>(GPUAR_BYTE);
  visit.template operator()<std::uint8_t>(GPUAR_LOGICAL8);
  visit.template operator()<std::int16_t>(GPUAR_LOGICAL16);
  visit.template operator()<std::int32_t>(GPUAR_LOGICAL32);
  visit.template operator()<std::int64_t>(GPUAR_LOGICAL64);
  visit.template operator()<FloatInt>(GPUAR_FLOAT32_INT);
  visit.template operator()<DoubleInt>(GPUAR_FLOAT64_INT);
  visit.template operator()<LongDoubleInt>(GPUAR_LONG_DOUBLE_INT);
  visit.template operator()<LongInt>(GPUAR_LONG_INT);
  visit.template operator()<ShortInt>(GPUAR_SHORT_INT);
  visit.template operator()<TwoInt>(GPUAR_INT32_INT32);
  visit.template operator()<TwoFloat>(GPUAR_FLOAT32_FLOAT32);
  visit.template operator()<TwoDouble>(GPUAR_FLOAT64_FLOAT64);
}

template <class T>
T reduce_integer(gpuar_op op, T a, T b) {
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): the sign is meant to be extended
  const __int128 signed_a = a, signed_b = b;
  const auto wide_a = static_cast<unsigned __int128>(signed_a);
  const auto wide_b = static_cast<unsigned __int128>(signed_b);
  switch (op) {
    case GPUAR_SUM:
      return static_cast<T>(wide_a + wide_b);
    case GPUAR_PROD:
      return static_cast<T>(wide_a * wide_b);
    case GPUAR_MIN:
      return b < a ? b : a;
    case GPUAR_MAX:
      return b > a ? b : a;
    case GPUAR_LAND:
      return a != 0 && b != 0 ? 1 : 0;
    case GPUAR_LOR:
      return a != 0 || b != 0 ? 1 : 0;
    case GPUAR_LXOR:
      return (a != 0) != (b != 0) ? 1 : 0;
    case GPUAR_BAND:
      return static_cast<T>(wide_a & wide_b);
    case GPUAR_BOR:
      return static_cast<T>(wide_a | wide_b);
    case GPUAR_BXOR:
      return static_cast<T>(wide_a ^ wide_b);
    default:
      throw std::logic_error("not an operation on integers");
  }
}

template <class T>
T reduce_real(gpuar_op op, T a, T b) {
  switch (op) {
    case GPUAR_SUM:
      return a + b;
    case GPUAR_PROD:
      return a * b;
    case GPUAR_MIN:
      return a < b ? a : b;
    case GPUAR_MAX:
      return a > b ? a : b;
    default:
      throw std::logic_error("not an operation on reals");
  }
}

template <class T>
std::complex<T> reduce_complex(gpuar_op op, std::complex<T> left, std::complex<T> right) {
  const T a = left.real(), b = left.imag(), c = right.real(), d = right.imag();
  if (op == GPUAR_SUM) return {a + c, b + d};
  if (op == GPUAR_PROD) return {a * c - b * d, a * d + b * c};
  throw std::logic_error("not an operation on complex numbers");
}

// MIN and MAX yield an operand with all its bits.
template <class T>
T reduce_narrow(gpuar_op op, T a, T b) {
  const double x = a.value(), y = b.value();
  switch (op) {
    case GPUAR_SUM:
      return T::nearest(static_cast<float>(x) + static_cast<float>(y));
    case GPUAR_PROD:
      return T::nearest(static_cast<float>(x) * static_cast<float>(y));
    case GPUAR_MIN:
      return x < y ? a : b;
    case GPUAR_MAX:
      return x > y ? a : b;
    default:
      throw std::logic_error("not an operation on reals");
  }
}

template <PairLike T>
T reduce_pair(gpuar_op op, T a, T b) {
  if (a.value == b.value) return {b.value, b.index < a.index ? b.index : a.index};
  if (op == GPUAR_MINLOC) return a.value < b.value ? a : b;
  if (op == GPUAR_MAXLOC) return a.value > b.value ? a : b;
  throw std::logic_error("not an operation on pairs");
}

template <class T>
T reduce(gpuar_op op, T a, T b) {
  if constexpr (PairLike<T>)
    return reduce_pair(op, a, b);
  else if constexpr (is_narrow<T>)
    return reduce_narrow(op, a, b);
  else if constexpr (is_complex<T>)
    return reduce_complex(op, a, b);
  else if constexpr (std::is_integral_v<T>)
    return reduce_integer(op, a, b);
  else
    return reduce_real(op, a, b);
}

// Numbers with their edges first: extremes, both zeros, infinities, NaN, the largest odd mantissa.
template <class T>
std::vector<T> numbers() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> list{T(0), T(1), T(-1), T(2), T(-3), Limits::lowest(), Limits::max()};
  if constexpr (std::is_integral_v<T>) {
    for (int shift = 0; shift < Limits::digits; ++shift) list.push_back(T(T(1) << shift));
    list.insert(list.end(), {T(Limits::lowest() + 1), T(Limits::max() - 1), T(Limits::max() / 2)});
  } else {
    list.insert(list.end(), {-T(0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                             Limits::denorm_min(), Limits::min(), T(1) + Limits::epsilon(),
                             T(1) / 3, T(-1e9) / 7});
  }
  std::mt19937_64 random(20);
  while (list.size() < 48) {
    if constexpr (std::is_integral_v<T>)
      list.push_back(static_cast<T>(random()));
    else
      list.push_back(std::ldexp(T(static_cast<std::int64_t>(random())), int(random() % 40) - 83));
  }
  return list;
}

template <class T>
std::vector<T> values() {
  std::vector<T> list;
  if constexpr (is_narrow<T>) {
    for (const double number : numbers<float>()) list.push_back(T::nearest(number));
    // The smallest and the largest subnormal, the smallest and the largest number, and a signalling
    // NaN, of either sign.
    const int infinity = T::nearest(HUGE_VAL).bits;
    const int normal = T::nearest(std::ldexp(1, 1 - T::bias)).bits;
    for (const int magnitude : {1, normal - 1, normal, infinity - 1, infinity + 1})
      for (const int sign : {0, 0x8000}) list.push_back(T{std::uint16_t(sign | magnitude)});
  } else if constexpr (PairLike<T>) {
    using Value = decltype(T::value);
    using Index = decltype(T::index);
    for (const Value value : numbers<Value>())  // NaN and ties included: each value has 3 indices
      for (const int index : {3, 0, 17}) list.push_back({value, static_cast<Index>(index)});
  } else if constexpr (is_complex<T>) {
    const auto parts = numbers<typename T::value_type>();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      list.emplace_back(parts[i], parts[(i * 7 + 3) % parts.size()]);
      list.emplace_back(parts[(i * 5 + 1) % parts.size()], parts[i]);
    }
  } else {
    list = numbers<T>();
  }
  return list;
}

}  // namespace reference
