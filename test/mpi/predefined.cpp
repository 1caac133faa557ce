// Every predefined operation on every predefined type that MPI allows it for, against plain loops:
// wrap-around, extremes, ties of the pair types, and results exact in any order of reduction.
#include <algorithm>
#include <complex>
#include <limits>
#include <type_traits>

#include "harness.h"

using namespace mpitest;

namespace {

struct NamedType {
  const char* name;
  MPI_Datatype handle;
};

// A Fortran type of a size that the compiler lacks has a handle of size zero.
bool exists(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return false;
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  return bytes > 0;
}

template <class T>
T load(const std::byte* from, std::size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof value);
  return value;
}

// Reduces in all forms and places, at counts that do and do not fill vector registers, and compares
// with `combine` applied from rank 0 upwards. value(rank, i) is what a rank contributes.
template <class T, class Value, class Combine, class Same>
void check(Case& c, const NamedType& type, const char* op_name, MPI_Op op, Value value,
           Combine combine, Same same) {
  if (!exists(type.handle)) return;
  int type_bytes = 0;
  MPI_Type_size(type.handle, &type_bytes);
  if (!c.expect(type_bytes <= static_cast<int>(sizeof(T)), type.name, " is larger than thought")) {
    return;
  }
  constexpr std::size_t most = 211;
  std::vector<T> expected(most);
  for (std::size_t i = 0; i < most; ++i) {
    expected[i] = value(0, i);
    for (int rank = 1; rank < c.size; ++rank) expected[i] = combine(expected[i], value(rank, i));
  }
  for (const Form form : all_forms) {
    for (const Place place : both_places) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{16}, most}) {
        Guarded in(count * sizeof(T));
        Guarded out(count * sizeof(T));
        for (std::size_t i = 0; i < count; ++i) {
          const T mine = value(c.rank, i);
          std::memcpy(in.data() + i * sizeof(T), &mine, sizeof mine);
          if (place == Place::in_place) {
            std::memcpy(out.data() + i * sizeof(T), &mine, sizeof mine);
          }
        }
        const void* from = place == Place::in_place ? MPI_IN_PLACE : in.data();
        const int rc = allreduce(form, from, out.data(), count, type.handle, op, c.comm);
        c.expect(rc == MPI_SUCCESS, op_name, " of ", type.name, ": error ", rc);
        c.expect(out.damage() == Guarded::intact, op_name, " of ", type.name,
                 ": wrote beside the buffer");
        for (std::size_t i = 0; i < count; ++i) {
          if (!c.expect(same(load<T>(out.data(), i), expected[i]), op_name, " of ", type.name, ", ",
                        name_of(form), ", ", name_of(place), ", count ", count, ", element ", i)) {
            break;
          }
        }
      }
    }
  }
}

template <class T>
bool equal(const T& a, const T& b) {
  return a == b;
}

std::uint64_t draw(int rank, std::size_t i) {
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

template <class T>
void arithmetic(Case& c, const NamedType& type) {
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
  check<T>(c, type, "MPI_SUM", MPI_SUM, integer<T>, sum, equal<T>);
  check<T>(c, type, "MPI_PROD", MPI_PROD, integer<T>, product, equal<T>);
  check<T>(c, type, "MPI_MIN", MPI_MIN, integer<T>, least, equal<T>);
  check<T>(c, type, "MPI_MAX", MPI_MAX, integer<T>, greatest, equal<T>);
}

template <class T, class Value>
void logical(Case& c, const NamedType& type, Value value) {
  const auto land = [](T a, T b) { return static_cast<T>(a != 0 && b != 0); };
  const auto lor = [](T a, T b) { return static_cast<T>(a != 0 || b != 0); };
  const auto lxor = [](T a, T b) { return static_cast<T>((a != 0) != (b != 0)); };
  check<T>(c, type, "MPI_LAND", MPI_LAND, value, land, equal<T>);
  check<T>(c, type, "MPI_LOR", MPI_LOR, value, lor, equal<T>);
  check<T>(c, type, "MPI_LXOR", MPI_LXOR, value, lxor, equal<T>);
}

template <class T>
void bitwise(Case& c, const NamedType& type) {
  const auto band = [](T a, T b) { return static_cast<T>(a & b); };
  const auto bor = [](T a, T b) { return static_cast<T>(a | b); };
  const auto bxor = [](T a, T b) { return static_cast<T>(a ^ b); };
  check<T>(c, type, "MPI_BAND", MPI_BAND, integer<T>, band, equal<T>);
  check<T>(c, type, "MPI_BOR", MPI_BOR, integer<T>, bor, equal<T>);
  check<T>(c, type, "MPI_BXOR", MPI_BXOR, integer<T>, bxor, equal<T>);
}

template <class T>
void c_integer(Case& c, const NamedType& type) {
  arithmetic<T>(c, type);
  logical<T>(c, type, sparse_integer<T>);
  bitwise<T>(c, type);
}

template <class T>
void fortran_integer(Case& c, const NamedType& type) {
  arithmetic<T>(c, type);
  bitwise<T>(c, type);
}

void c_integers(Case& c) {
  c_integer<signed char>(c, {"MPI_SIGNED_CHAR", MPI_SIGNED_CHAR});
  c_integer<unsigned char>(c, {"MPI_UNSIGNED_CHAR", MPI_UNSIGNED_CHAR});
  c_integer<short>(c, {"MPI_SHORT", MPI_SHORT});
  c_integer<unsigned short>(c, {"MPI_UNSIGNED_SHORT", MPI_UNSIGNED_SHORT});
  c_integer<int>(c, {"MPI_INT", MPI_INT});
  c_integer<unsigned>(c, {"MPI_UNSIGNED", MPI_UNSIGNED});
  c_integer<long>(c, {"MPI_LONG", MPI_LONG});
  c_integer<long long>(c, {"MPI_LONG_LONG", MPI_LONG_LONG});
  c_integer<long long>(c, {"MPI_LONG_LONG_INT", MPI_LONG_LONG_INT});
  c_integer<unsigned long long>(c, {"MPI_UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG});
}

// Open MPI 4.1.4's own MIN and MAX of this type are wrong.
void unsigned_long(Case& c) {
  c_integer<unsigned long>(c, {"MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG});
}

void sized_integers(Case& c) {
  c_integer<std::int8_t>(c, {"MPI_INT8_T", MPI_INT8_T});
  c_integer<std::int16_t>(c, {"MPI_INT16_T", MPI_INT16_T});
  c_integer<std::int32_t>(c, {"MPI_INT32_T", MPI_INT32_T});
  c_integer<std::int64_t>(c, {"MPI_INT64_T", MPI_INT64_T});
  c_integer<std::uint8_t>(c, {"MPI_UINT8_T", MPI_UINT8_T});
  c_integer<std::uint16_t>(c, {"MPI_UINT16_T", MPI_UINT16_T});
  c_integer<std::uint32_t>(c, {"MPI_UINT32_T", MPI_UINT32_T});
  c_integer<std::uint64_t>(c, {"MPI_UINT64_T", MPI_UINT64_T});
}

void multi_language_integers(Case& c) {
  c_integer<MPI_Aint>(c, {"MPI_AINT", MPI_AINT});
  c_integer<MPI_Offset>(c, {"MPI_OFFSET", MPI_OFFSET});
  c_integer<MPI_Count>(c, {"MPI_COUNT", MPI_COUNT});
}

void fortran_integers(Case& c) {
  fortran_integer<std::int32_t>(c, {"MPI_INTEGER", MPI_INTEGER});
  fortran_integer<std::int8_t>(c, {"MPI_INTEGER1", MPI_INTEGER1});
  fortran_integer<std::int16_t>(c, {"MPI_INTEGER2", MPI_INTEGER2});
  fortran_integer<std::int32_t>(c, {"MPI_INTEGER4", MPI_INTEGER4});
  fortran_integer<std::int64_t>(c, {"MPI_INTEGER8", MPI_INTEGER8});
}

void bytes(Case& c) {
  bitwise<std::uint8_t>(c, {"MPI_BYTE", MPI_BYTE});
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

template <class T>
void real(Case& c, const NamedType& type) {
  const auto sum = [](T a, T b) { return static_cast<T>(a + b); };
  const auto product = [](T a, T b) { return static_cast<T>(a * b); };
  const auto least = [](T a, T b) { return b < a ? b : a; };
  const auto greatest = [](T a, T b) { return a < b ? b : a; };
  check<T>(c, type, "MPI_SUM", MPI_SUM, small_number<T>, sum, equal<T>);
  check<T>(c, type, "MPI_PROD", MPI_PROD, small_number<T>, product, equal<T>);
  check<T>(c, type, "MPI_MIN", MPI_MIN, extreme_number<T>, least, equal<T>);
  check<T>(c, type, "MPI_MAX", MPI_MAX, extreme_number<T>, greatest, equal<T>);
}

void reals(Case& c) {
  real<float>(c, {"MPI_FLOAT", MPI_FLOAT});
  real<double>(c, {"MPI_DOUBLE", MPI_DOUBLE});
  real<long double>(c, {"MPI_LONG_DOUBLE", MPI_LONG_DOUBLE});
  real<float>(c, {"MPI_REAL", MPI_REAL});
  real<float>(c, {"MPI_REAL4", MPI_REAL4});
  real<double>(c, {"MPI_REAL8", MPI_REAL8});
  real<double>(c, {"MPI_DOUBLE_PRECISION", MPI_DOUBLE_PRECISION});
}

template <class T>
void complex_number(Case& c, const NamedType& type) {
  using Number = std::complex<T>;
  const auto value = [](int rank, std::size_t i) {
    const std::uint64_t bits = draw(rank, i);
    return Number(static_cast<T>(static_cast<int>(bits % 5) - 2),
                  static_cast<T>(static_cast<int>((bits >> 8U) % 5) - 2));
  };
  const auto sum = [](Number a, Number b) { return a + b; };
  const auto product = [](Number a, Number b) { return a * b; };
  check<Number>(c, type, "MPI_SUM", MPI_SUM, value, sum, equal<Number>);
  check<Number>(c, type, "MPI_PROD", MPI_PROD, value, product, equal<Number>);
}

void complex_numbers(Case& c) {
  complex_number<float>(c, {"MPI_C_COMPLEX", MPI_C_COMPLEX});
  complex_number<float>(c, {"MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX});
  complex_number<double>(c, {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX});
  complex_number<long double>(c, {"MPI_C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX});
  complex_number<float>(c, {"MPI_CXX_FLOAT_COMPLEX", MPI_CXX_FLOAT_COMPLEX});
  complex_number<double>(c, {"MPI_CXX_DOUBLE_COMPLEX", MPI_CXX_DOUBLE_COMPLEX});
  complex_number<long double>(c, {"MPI_CXX_LONG_DOUBLE_COMPLEX", MPI_CXX_LONG_DOUBLE_COMPLEX});
  complex_number<float>(c, {"MPI_COMPLEX", MPI_COMPLEX});
  complex_number<float>(c, {"MPI_COMPLEX8", MPI_COMPLEX8});
  complex_number<double>(c, {"MPI_COMPLEX16", MPI_COMPLEX16});
  complex_number<double>(c, {"MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX});
}

void truth_value(Case& c, const NamedType& type) {
  if (!exists(type.handle)) return;
  const auto value = [](int rank, std::size_t i) { return draw(rank, i) % 3 != 0 ? 1 : 0; };
  int size = 0;
  MPI_Type_size(type.handle, &size);
  switch (size) {
    case 1:
      return logical<std::uint8_t>(c, type, value);
    case 2:
      return logical<std::uint16_t>(c, type, value);
    case 4:
      return logical<std::uint32_t>(c, type, value);
    default:
      return logical<std::uint64_t>(c, type, value);
  }
}

void truth_values(Case& c) {
  truth_value(c, {"MPI_C_BOOL", MPI_C_BOOL});
  truth_value(c, {"MPI_CXX_BOOL", MPI_CXX_BOOL});
  truth_value(c, {"MPI_LOGICAL", MPI_LOGICAL});
  truth_value(c, {"MPI_LOGICAL1", MPI_LOGICAL1});
  truth_value(c, {"MPI_LOGICAL2", MPI_LOGICAL2});
  truth_value(c, {"MPI_LOGICAL4", MPI_LOGICAL4});
  truth_value(c, {"MPI_LOGICAL8", MPI_LOGICAL8});
}

// Few distinct values, so that ties are common, and indices that do not follow the ranks.
template <class Value, class Index>
void pair(Case& c, const NamedType& type) {
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
  check<Pair>(c, type, "MPI_MINLOC", MPI_MINLOC, value, least, same);
  check<Pair>(c, type, "MPI_MAXLOC", MPI_MAXLOC, value, greatest, same);
}

void pairs(Case& c) {
  pair<float, int>(c, {"MPI_FLOAT_INT", MPI_FLOAT_INT});
  pair<double, int>(c, {"MPI_DOUBLE_INT", MPI_DOUBLE_INT});
  pair<long double, int>(c, {"MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT});
  pair<long, int>(c, {"MPI_LONG_INT", MPI_LONG_INT});
  pair<short, int>(c, {"MPI_SHORT_INT", MPI_SHORT_INT});
  pair<int, int>(c, {"MPI_2INT", MPI_2INT});
  pair<std::int32_t, std::int32_t>(c, {"MPI_2INTEGER", MPI_2INTEGER});
  pair<float, float>(c, {"MPI_2REAL", MPI_2REAL});
  pair<double, double>(c, {"MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION});
}

constexpr Entry cases[] = {
    {"c_integers", c_integers},
    {"unsigned_long", unsigned_long},
    {"sized_integers", sized_integers},
    {"multi_language_integers", multi_language_integers},
    {"fortran_integers", fortran_integers},
    {"bytes", bytes},
    {"reals", reals},
    {"complex_numbers", complex_numbers},
    {"truth_values", truth_values},
    {"pairs", pairs},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
