// What the reductions compute: the elements, the operations, and which pairs of them MPI defines
// (MPI 4.0, section 6.9.2 and 6.9.4). Written once: host kernels and CUDA kernels both include
// this.
//
// Rounding must not depend on who computes, so every build turns fused multiply-add off
// (-ffp-contract=off, nvcc: -fmad=false). Long double exists on the host only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda_reduce/half.h"
#include "cuda_reduce/types.h"

namespace gpuar {

#if defined(__SIZEOF_FLOAT128__)
using Float128 = __float128;
#else
using Float128 = long double;  // where there is no such type, long double has that format
#endif

template <class T>
struct Complex {
  T re;
  T im;
};

// The layout is that of the C struct, padding included.
template <class Value, class Index>
struct Pair {
  Value value;
  Index index;
};

enum class Family { integer, floating, complex, logical, byte, pair };

template <Family F, class T>
struct ElementTraits {
  static constexpr Family family = F;
  using Type = T;
};

// clang-format off
template <gpuar_type> struct Element;
template <> struct Element<GPUAR_INT8> : ElementTraits<Family::integer, std::int8_t> {};
template <> struct Element<GPUAR_INT16> : ElementTraits<Family::integer, std::int16_t> {};
template <> struct Element<GPUAR_INT32> : ElementTraits<Family::integer, std::int32_t> {};
template <> struct Element<GPUAR_INT64> : ElementTraits<Family::integer, std::int64_t> {};
template <> struct Element<GPUAR_UINT8> : ElementTraits<Family::integer, std::uint8_t> {};
template <> struct Element<GPUAR_UINT16> : ElementTraits<Family::integer, std::uint16_t> {};
template <> struct Element<GPUAR_UINT32> : ElementTraits<Family::integer, std::uint32_t> {};
template <> struct Element<GPUAR_UINT64> : ElementTraits<Family::integer, std::uint64_t> {};
template <> struct Element<GPUAR_FLOAT16> : ElementTraits<Family::floating, Float16> {};
template <> struct Element<GPUAR_BFLOAT16> : ElementTraits<Family::floating, BFloat16> {};
template <> struct Element<GPUAR_FLOAT32> : ElementTraits<Family::floating, float> {};
template <> struct Element<GPUAR_FLOAT64> : ElementTraits<Family::floating, double> {};
template <> struct Element<GPUAR_LONG_DOUBLE> : ElementTraits<Family::floating, long double> {};
template <> struct Element<GPUAR_FLOAT128> : ElementTraits<Family::floating, Float128> {};
template <> struct Element<GPUAR_COMPLEX_FLOAT32> : ElementTraits<Family::complex, Complex<float>> {};
template <> struct Element<GPUAR_COMPLEX_FLOAT64> : ElementTraits<Family::complex, Complex<double>> {};
template <> struct Element<GPUAR_COMPLEX_LONG_DOUBLE> : ElementTraits<Family::complex, Complex<long double>> {};
template <> struct Element<GPUAR_COMPLEX_FLOAT128> : ElementTraits<Family::complex, Complex<Float128>> {};
// Read as a number, not as bool: a byte other than 0 and 1 in a bool is undefined behaviour.
template <> struct Element<GPUAR_BOOL> : ElementTraits<Family::logical, std::uint8_t> {};
template <> struct Element<GPUAR_BYTE> : ElementTraits<Family::byte, std::uint8_t> {};
template <> struct Element<GPUAR_LOGICAL8> : ElementTraits<Family::logical, std::uint8_t> {};
template <> struct Element<GPUAR_LOGICAL16> : ElementTraits<Family::logical, std::uint16_t> {};
template <> struct Element<GPUAR_LOGICAL32> : ElementTraits<Family::logical, std::uint32_t> {};
template <> struct Element<GPUAR_LOGICAL64> : ElementTraits<Family::logical, std::uint64_t> {};
template <> struct Element<GPUAR_FLOAT32_INT> : ElementTraits<Family::pair, Pair<float, int>> {};
template <> struct Element<GPUAR_FLOAT64_INT> : ElementTraits<Family::pair, Pair<double, int>> {};
template <> struct Element<GPUAR_LONG_DOUBLE_INT> : ElementTraits<Family::pair, Pair<long double, int>> {};
template <> struct Element<GPUAR_LONG_INT> : ElementTraits<Family::pair, Pair<long, int>> {};
template <> struct Element<GPUAR_SHORT_INT> : ElementTraits<Family::pair, Pair<short, int>> {};
template <> struct Element<GPUAR_INT32_INT32> : ElementTraits<Family::pair, Pair<std::int32_t, std::int32_t>> {};
template <> struct Element<GPUAR_FLOAT32_FLOAT32> : ElementTraits<Family::pair, Pair<float, float>> {};
template <> struct Element<GPUAR_FLOAT64_FLOAT64> : ElementTraits<Family::pair, Pair<double, double>> {};
// clang-format on

constexpr bool orders_values(gpuar_op op) {
  return op == GPUAR_MIN || op == GPUAR_MAX;
}

// Whether MPI defines the operation on elements of this family.
constexpr bool is_defined(gpuar_op op, Family family) {
  switch (op) {
    case GPUAR_SUM:
    case GPUAR_PROD:
      return family == Family::integer || family == Family::floating || family == Family::complex;
    case GPUAR_MIN:
    case GPUAR_MAX:
      return family == Family::integer || family == Family::floating;
    case GPUAR_LAND:
    case GPUAR_LOR:
    case GPUAR_LXOR:
      return family == Family::integer || family == Family::logical;
    case GPUAR_BAND:
    case GPUAR_BOR:
    case GPUAR_BXOR:
      return family == Family::integer || family == Family::byte;
    case GPUAR_MINLOC:
    case GPUAR_MAXLOC:
      return family == Family::pair;
    case GPUAR_OP_COUNT:
      break;
  }
  return false;
}

// Whether a result can be divided by the number of ranks, for an average.
constexpr bool has_average(Family family) {
  return family == Family::floating || family == Family::complex;
}

// The type to compute in. Only an ordering needs the sign: all else is the same on the bits, and
// unsigned arithmetic wraps where signed overflow would be undefined.
template <gpuar_op op, gpuar_type type>
struct OperandOf {
  using Plain = typename Element<type>::Type;
  template <class T>
  static auto pick() {
    if constexpr (std::is_integral_v<T> && !orders_values(op)) {
      return std::make_unsigned_t<T>{};
    } else {
      return T{};
    }
  }
  using Type = decltype(pick<Plain>());
};
template <gpuar_op op, gpuar_type type>
using Operand = typename OperandOf<op, type>::Type;

// One operation: `apply(left, right)`.
template <gpuar_op>
struct Functor;

template <>
struct Functor<GPUAR_SUM> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return static_cast<T>(left + right);
  }
  template <class T>
  GPUAR_HD static Complex<T> apply(Complex<T> left, Complex<T> right) {
    return {left.re + right.re, left.im + right.im};
  }
};

template <>
struct Functor<GPUAR_PROD> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(1U * left * right);  // 16-bit operands would promote to signed int
    } else {
      return left * right;
    }
  }
  // The schoolbook product, without C's Annex G repair of infinities.
  template <class T>
  GPUAR_HD static Complex<T> apply(Complex<T> left, Complex<T> right) {
    return {left.re * right.re - left.im * right.im, left.re * right.im + left.im * right.re};
  }
};

template <>
struct Functor<GPUAR_MIN> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return left < right ? left : right;
  }
};

template <>
struct Functor<GPUAR_MAX> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return left > right ? left : right;
  }
};

template <>
struct Functor<GPUAR_LAND> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return static_cast<T>((left != 0) & (right != 0));
  }
};

template <>
struct Functor<GPUAR_LOR> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return static_cast<T>((left | right) != 0);
  }
};

template <>
struct Functor<GPUAR_LXOR> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return static_cast<T>((left != 0) ^ (right != 0));
  }
};

template <>
struct Functor<GPUAR_BAND> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return static_cast<T>(left & right);
  }
};

template <>
struct Functor<GPUAR_BOR> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return static_cast<T>(left | right);
  }
};

template <>
struct Functor<GPUAR_BXOR> {
  template <class T>
  GPUAR_HD static T apply(T left, T right) {
    return static_cast<T>(left ^ right);
  }
};

// Of equal values the lower index stays. A pair that is not ordered (NaN) yields the right one, as
// MIN and MAX do.
template <>
struct Functor<GPUAR_MINLOC> {
  template <class V, class I>
  GPUAR_HD static Pair<V, I> apply(Pair<V, I> left, Pair<V, I> right) {
    const bool take_left =
        (left.value < right.value) | ((left.value == right.value) & (left.index < right.index));
    return {left.value < right.value ? left.value : right.value,
            take_left ? left.index : right.index};
  }
};

template <>
struct Functor<GPUAR_MAXLOC> {
  template <class V, class I>
  GPUAR_HD static Pair<V, I> apply(Pair<V, I> left, Pair<V, I> right) {
    const bool take_left =
        (left.value > right.value) | ((left.value == right.value) & (left.index < right.index));
    return {left.value > right.value ? left.value : right.value,
            take_left ? left.index : right.index};
  }
};

// What makes an average of a sum, once per element. Divided, not multiplied by a reciprocal: the
// quotient is the correctly rounded one. Of 16-bit types it is rounded to float and then once more;
// up to 4095 ranks that comes to the same.
struct Division {
  template <class T>
  GPUAR_HD static T apply(T sum, std::int32_t ranks) {
    return sum / static_cast<T>(ranks);
  }
  template <Half T>
  GPUAR_HD static T apply(T sum, std::int32_t ranks) {
    return T::round(sum.widen() / static_cast<float>(ranks));
  }
  template <class T>
  GPUAR_HD static Complex<T> apply(Complex<T> sum, std::int32_t ranks) {
    return {apply(sum.re, ranks), apply(sum.im, ranks)};
  }
};

}  // namespace gpuar
