// Every predefined operation on every predefined type that MPI allows it for, as a plain program
// computes it: what a rank contributes, and how two contributions combine. Results are exact in any
// order of reduction: wrap-around, extremes, ties of the pair types, small floating point numbers.
//
// Each function here calls visit(type, operation's name, operation, value, combine, same) for a
// family of types: value(rank, i) is what a rank contributes to element i, same(a, b) compares.
#pragma once

#include <complex>
#include <limits>

#include "harness.h"

namespace mpitest::predefined {

struct NamedType {
  const char* name;
  MPI_Datatype handle;
};

// A Fortran type of a size that the compiler lacks has a handle of size zero.
inline bool exists(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return false;
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  return bytes > 0;
}

template <class T>
bool equal(const T& a, const T& b) {
  return a == b;
}

inline std::uint64_t draw(int rank, std::size_t i) {
  return mix(static_cast<std::uint64_t>(rank), i);
}

// Integers: the extremes, small numbers, and random bits.
template <class T>
T integer(int rank, std::size_t i) {
  const std::uint64_t bits = draw(rank, i);
  switch (bits % 8) {
    case 0:
      return std::numeric_limits<T>::min();
    case 1:
      return std::numeric_limits<T>::max();
    case 2:
      return 0;
    case 3:
      return 1;
    case 4:
      return static_cast<T>(-1);
    default:
      return static_cast<T>(bits >> 8U);
  }
}

template <class T>
T sparse_integer(int rank, std::size_t i) {
  return draw(rank, i) % 3 == 0 ? T{0} : integer<T>(rank, i);
}

template <class T, class Visit>
void arithmetic(Visit& visit, const NamedType& type) {
  const auto sum = [](T a, T b) {
    const std::uint64_t wrapped = static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b);
    return static_cast<T>(wrapped);
  };
  const auto product = [](T a, T b) {
    const std::uint64_t wrapped = static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
    return static_cast<T>(wrapped);
  };
  const auto least = [](T a, T b) { return b < a ? b : a; };
  const auto greatest = [](T a, T b) { return a < b ? b : a; };
  visit(type, "MPI_SUM", MPI_SUM, integer<T>, sum, equal<T>);
  visit(type, "MPI_PROD", MPI_PROD, integer<T>, product, equal<T>);
  visit(type, "MPI_MIN", MPI_MIN, integer<T>, least, equal<T>);
  visit(type, "MPI_MAX", MPI_MAX, integer<T>, greatest, equal<T>);
}

template <class T, class Value, class Visit>
void logical(Visit& visit, const NamedType& type, Value value) {
  const auto land = [](T a, T b) { return static_cast<T>(a != 0 && b != 0); };
  const auto lor = [](T a, T b) { return static_cast<T>(a != 0 || b != 0); };
  const auto lxor = [](T a, T b) { return static_cast<T>((a != 0) != (b != 0)); };
  visit(type, "MPI_LAND", MPI_LAND, value, land, equal<T>);
  visit(type, "MPI_LOR", MPI_LOR, value, lor, equal<T>);
  visit(type, "MPI_LXOR", MPI_LXOR, value, lxor, equal<T>);
}

template <class T, class Visit>
void bitwise(Visit& visit, const NamedType& type) {
  const auto band = [](T a, T b) { return static_cast<T>(a & b); };
  const auto bor = [](T a, T b) { return static_cast<T>(a | b); };
  const auto bxor = [](T a, T b) { return static_cast<T>(a ^ b); };
  visit(type, "MPI_BAND", MPI_BAND, integer<T>, band, equal<T>);
  visit(type, "MPI_BOR", MPI_BOR, integer<T>, bor, equal<T>);
  visit(type, "MPI_BXOR", MPI_BXOR, integer<T>, bxor, equal<T>);
}

template <class T, class Visit>
void c_integer(Visit& visit, const NamedType& type) {
  arithmetic<T>(visit, type);
  logical<T>(visit, type, sparse_integer<T>);
  bitwise<T>(visit, type);
}

template <class T, class Visit>
void fortran_integer(Visit& visit, const NamedType& type) {
  arithmetic<T>(visit, type);
  bitwise<T>(visit, type);
}

template <class Visit>
void c_integers(Visit&& visit) {
  c_integer<signed char>(visit, {"MPI_SIGNED_CHAR", MPI_SIGNED_CHAR});
  c_integer<unsigned char>(visit, {"MPI_UNSIGNED_CHAR", MPI_UNSIGNED_CHAR});
  c_integer<short>(visit, {"MPI_SHORT", MPI_SHORT});
  c_integer<unsigned short>(visit, {"MPI_UNSIGNED_SHORT", MPI_UNSIGNED_SHORT});
  c_integer<int>(visit, {"MPI_INT", MPI_INT});
  c_integer<unsigned>(visit, {"MPI_UNSIGNED", MPI_UNSIGNED});
  c_integer<long>(visit, {"MPI_LONG", MPI_LONG});
  c_integer<long long>(visit, {"MPI_LONG_LONG", MPI_LONG_LONG});
  c_integer<long long>(visit, {"MPI_LONG_LONG_INT", MPI_LONG_LONG_INT});
  c_integer<unsigned long long>(visit, {"MPI_UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG});
}

// Open MPI 4.1.4's own MIN and MAX of this type are wrong.
template <class Visit>
void unsigned_long(Visit&& visit) {
  c_integer<unsigned long>(visit, {"MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG});
}

template <class Visit>
void sized_integers(Visit&& visit) {
  c_integer<std::int8_t>(visit, {"MPI_INT8_T", MPI_INT8_T});
  c_integer<std::int16_t>(visit, {"MPI_INT16_T", MPI_INT16_T});
  c_integer<std::int32_t>(visit, {"MPI_INT32_T", MPI_INT32_T});
  c_integer<std::int64_t>(visit, {"MPI_INT64_T", MPI_INT64_T});
  c_integer<std::uint8_t>(visit, {"MPI_UINT8_T", MPI_UINT8_T});
  c_integer<std::uint16_t>(visit, {"MPI_UINT16_T", MPI_UINT16_T});
  c_integer<std::uint32_t>(visit, {"MPI_UINT32_T", MPI_UINT32_T});
  c_integer<std::uint64_t>(visit, {"MPI_UINT64_T", MPI_UINT64_T});
}

template <class Visit>
void multi_language_integers(Visit&& visit) {
  c_integer<MPI_Aint>(visit, {"MPI_AINT", MPI_AINT});
  c_integer<MPI_Offset>(visit, {"MPI_OFFSET", MPI_OFFSET});
  c_integer<MPI_Count>(visit, {"MPI_COUNT", MPI_COUNT});
}

template <class Visit>
void fortran_integers(Visit&& visit) {
  fortran_integer<std::int32_t>(visit, {"MPI_INTEGER", MPI_INTEGER});
  fortran_integer<std::int8_t>(visit, {"MPI_INTEGER1", MPI_INTEGER1});
  fortran_integer<std::int16_t>(visit, {"MPI_INTEGER2", MPI_INTEGER2});
  fortran_integer<std::int32_t>(visit, {"MPI_INTEGER4", MPI_INTEGER4});
  fortran_integer<std::int64_t>(visit, {"MPI_INTEGER8", MPI_INTEGER8});
}

template <class Visit>
void bytes(Visit&& visit) {
  bitwise<std::uint8_t>(visit, {"MPI_BYTE", MPI_BYTE});
}

// Floating point sums and products of small integers are exact in any order.
template <class T>
T small_number(int rank, std::size_t i) {
  return static_cast<T>(static_cast<int>(draw(rank, i) % 7) - 3);
}

template <class T>
T extreme_number(int rank, std::size_t i) {
  const std::uint64_t bits = draw(rank, i);
  switch (bits % 8) {
    case 0:
      return std::numeric_limits<T>::infinity();
    case 1:
      return -std::numeric_limits<T>::infinity();
    case 2:
      return std::numeric_limits<T>::max();
    case 3:
      return std::numeric_limits<T>::lowest();
    case 4:
      return std::numeric_limits<T>::denorm_min();
    case 5:
      return -std::numeric_limits<T>::denorm_min();
    default:
      return static_cast<T>(static_cast<std::int64_t>(bits)) / static_cast<T>(1U << 20U);
  }
}

template <class T, class Visit>
void real(Visit& visit, const NamedType& type) {
  const auto sum = [](T a, T b) { return static_cast<T>(a + b); };
  const auto product = [](T a, T b) { return static_cast<T>(a * b); };
  const auto least = [](T a, T b) { return b < a ? b : a; };
  const auto greatest = [](T a, T b) { return a < b ? b : a; };
  visit(type, "MPI_SUM", MPI_SUM, small_number<T>, sum, equal<T>);
  visit(type, "MPI_PROD", MPI_PROD, small_number<T>, product, equal<T>);
  visit(type, "MPI_MIN", MPI_MIN, extreme_number<T>, least, equal<T>);
  visit(type, "MPI_MAX", MPI_MAX, extreme_number<T>, greatest, equal<T>);
}

template <class Visit>
void reals(Visit&& visit) {
  real<float>(visit, {"MPI_FLOAT", MPI_FLOAT});
  real<double>(visit, {"MPI_DOUBLE", MPI_DOUBLE});
  real<long double>(visit, {"MPI_LONG_DOUBLE", MPI_LONG_DOUBLE});
  real<float>(visit, {"MPI_REAL", MPI_REAL});
  real<float>(visit, {"MPI_REAL4", MPI_REAL4});
  real<double>(visit, {"MPI_REAL8", MPI_REAL8});
  real<double>(visit, {"MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION});
}

template <class T, class Visit>
void complex_number(Visit& visit, const NamedType& type) {
  using Number = std::complex<T>;
  const auto value = [](int rank, std::size_t i) {
    const std::uint64_t bits = draw(rank, i);
    return Number(static_cast<T>(static_cast<int>(bits % 5) - 2),
                  static_cast<T>(static_cast<int>((bits >> 8U) % 5) - 2));
  };
  const auto sum = [](Number a, Number b) { return a + b; };
  const auto product = [](Number a, Number b) { return a * b; };
  visit(type, "MPI_SUM", MPI_SUM, value, sum, equal<Number>);
  visit(type, "MPI_PROD", MPI_PROD, value, product, equal<Number>);
}

template <class Visit>
void complex_numbers(Visit&& visit) {
  complex_number<float>(visit, {"MPI_C_COMPLEX", MPI_C_COMPLEX});
  complex_number<float>(visit, {"MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX});
  complex_number<double>(visit, {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX});
  complex_number<long double>(visit, {"MPI_C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX});
  complex_number<float>(visit, {"MPI_CXX_FLOAT_COMPLEX", MPI_CXX_FLOAT_COMPLEX});
  complex_number<double>(visit, {"MPI_CXX_DOUBLE_COMPLEX", MPI_CXX_DOUBLE_COMPLEX});
  complex_number<long double>(visit, {"MPI_CXX_LONG_DOUBLE_COMPLEX", MPI_CXX_LONG_DOUBLE_COMPLEX});
  complex_number<float>(visit, {"MPI_COMPLEX", MPI_COMPLEX});
  complex_number<float>(visit, {"MPI_COMPLEX8", MPI_COMPLEX8});
  complex_number<double>(visit, {"MPI_COMPLEX16", MPI_COMPLEX16});
  complex_number<double>(visit, {"MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX});
}

template <class Visit>
void truth_value(Visit& visit, const NamedType& type) {
  if (!exists(type.handle)) return;
  const auto value = [](int rank, std::size_t i) { return draw(rank, i) % 3 != 0 ? 1 : 0; };
  int size = 0;
  MPI_Type_size(type.handle, &size);
  switch (size) {
    case 1:
      return logical<std::uint8_t>(visit, type, value);
    case 2:
      return logical<std::uint16_t>(visit, type, value);
    case 4:
      return logical<std::uint32_t>(visit, type, value);
    default:
      return logical<std::uint64_t>(visit, type, value);
  }
}

template <class Visit>
void truth_values(Visit&& visit) {
  truth_value(visit, {"MPI_C_BOOL", MPI_C_BOOL});
  truth_value(visit, {"MPI_CXX_BOOL", MPI_CXX_BOOL});
  truth_value(visit, {"MPI_LOGICAL", MPI_LOGICAL});
  truth_value(visit, {"MPI_LOGICAL1", MPI_LOGICAL1});
  truth_value(visit, {"MPI_LOGICAL2", MPI_LOGICAL2});
  truth_value(visit, {"MPI_LOGICAL4", MPI_LOGICAL4});
  truth_value(visit, {"MPI_LOGICAL8", MPI_LOGICAL8});
}

// Few distinct values, so that ties are common, and indices that do not follow the ranks.
template <class Value, class Index, class Visit>
void pair(Visit& visit, const NamedType& type) {
  struct Pair {
    Value value;
    Index index;
  };
  const auto value = [](int rank, std::size_t i) {
    const std::uint64_t bits = draw(rank, i);
    Pair pair{};
    pair.value = static_cast<Value>(static_cast<int>(bits % 3) - 1);
    pair.index = static_cast<Index>((bits >> 16U) % 100);
    return pair;
  };
  const auto tie = [](const Pair& a, const Pair& b) { return a.index < b.index ? a : b; };
  const auto least = [tie](const Pair& a, const Pair& b) {
    if (a.value == b.value) return tie(a, b);
    return a.value < b.value ? a : b;
  };
  const auto greatest = [tie](const Pair& a, const Pair& b) {
    if (a.value == b.value) return tie(a, b);
    return a.value > b.value ? a : b;
  };
  const auto same = [](const Pair& a, const Pair& b) {
    return a.value == b.value && a.index == b.index;
  };
  visit(type, "MPI_MINLOC", MPI_MINLOC, value, least, same);
  visit(type, "MPI_MAXLOC", MPI_MAXLOC, value, greatest, same);
}

template <class Visit>
void pairs(Visit&& visit) {
  pair<float, int>(visit, {"MPI_FLOAT_INT", MPI_FLOAT_INT});
  pair<double, int>(visit, {"MPI_DOUBLE_INT", MPI_DOUBLE_INT});
  pair<long double, int>(visit, {"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT});
  pair<long, int>(visit, {"MPI_LONG_INT", MPI_LONG_INT});
  pair<short, int>(visit, {"MPI_SHORT_INT", MPI_SHORT_INT});
  pair<int, int>(visit, {"MPI_2INT", MPI_2INT});
  pair<std::int32_t, std::int32_t>(visit, {"MPI_2INTEGER", MPI_2INTEGER});
  pair<float, float>(visit, {"MPI_2REAL", MPI_2REAL});
  pair<double, double>(visit, {"MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION});
}

template <class Visit>
void all(Visit&& visit) {
  c_integers(visit);
  unsigned_long(visit);
  sized_integers(visit);
  multi_language_integers(visit);
  fortran_integers(visit);
  bytes(visit);
  reals(visit);
  complex_numbers(visit);
  truth_values(visit);
  pairs(visit);
}

}  // namespace mpitest::predefined
