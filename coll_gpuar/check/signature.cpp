#include "coll_gpuar/check/signature.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <type_traits>

namespace gpuar {
namespace {

constexpr std::array<const char*, GPUAR_OP_COUNT> op_names{
    "sum",         "product",     "minimum",    "maximum",     "logical and", "logical or",
    "logical xor", "bitwise and", "bitwise or", "bitwise xor", "minloc",      "maxloc"};

constexpr std::array<const char*, GPUAR_TYPE_COUNT> type_names{"int8",
                                                               "int16",
                                                               "int32",
                                                               "int64",
                                                               "uint8",
                                                               "uint16",
                                                               "uint32",
                                                               "uint64",
                                                               "float16",
                                                               "bfloat16",
                                                               "float32",
                                                               "float64",
                                                               "long double",
                                                               "float128",
                                                               "complex float32",
                                                               "complex float64",
                                                               "complex long double",
                                                               "complex float128",
                                                               "bool",
                                                               "byte",
                                                               "logical8",
                                                               "logical16",
                                                               "logical32",
                                                               "logical64",
                                                               "float32 and int",
                                                               "float64 and int",
                                                               "long double and int",
                                                               "long and int",
                                                               "short and int",
                                                               "two int32",
                                                               "two float32",
                                                               "two float64"};

template <std::size_t n>
const char* name_in(const std::array<const char*, n>& names, std::uint8_t index) {
  return index < n ? names[index] : "unknown";
}

// The lowest rank of these whose claim differs.
Claim lowest_other(const Signature& from, std::initializer_list<Claim> claims) {
  Claim lowest;
  for (const Claim& claim : claims) {
    const bool differs = claim.rank >= 0 && claim.what != from;
    if (differs && (lowest.rank < 0 || claim.rank < lowest.rank)) lowest = claim;
  }
  return lowest;
}

}  // namespace

const char* call_of(CallForm form) {
  switch (form) {
    case CallForm::blocking:
      return "MPI_Allreduce";
    case CallForm::nonblocking:
      return "MPI_Iallreduce";
    case CallForm::persistent:
      return "MPI_Start of MPI_Allreduce_init";
  }
  return "a call of no known form";
}

std::string describe(const Signature& signature) {
  if (signature.custom) {
    return fmt::format("{} of {} elements of {} bytes, {} user-defined operation or datatype",
                       call_of(signature.form), signature.count, signature.element_bytes,
                       signature.commutative != 0 ? "a" : "a non-commutative");
  }
  return fmt::format("{} of {} elements of {}, {}", call_of(signature.form), signature.count,
                     name_in(type_names, signature.type),
                     signature.average != 0 ? "average" : name_in(op_names, signature.op));
}

Survey merge(const Survey& a, const Survey& b) {
  const Claim first = a.first.rank < b.first.rank ? a.first : b.first;
  return {first, lowest_other(first.what, {a.first, a.other, b.first, b.other})};
}

void merge_surveys(void* out, const void* left, const void* right, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Survey>);
  for (std::size_t i = 0; i < count; ++i) {
    Survey a;
    Survey b;
    std::memcpy(&a, static_cast<const Survey*>(left) + i, sizeof a);
    std::memcpy(&b, static_cast<const Survey*>(right) + i, sizeof b);
    const Survey both = merge(a, b);
    std::memcpy(static_cast<Survey*>(out) + i, &both, sizeof both);
  }
}

std::string describe(const Survey& survey) {
  return fmt::format("the ranks disagree on the call: rank {} is in {}; rank {} is in {}",
                     survey.first.rank, describe(survey.first.what), survey.other.rank,
                     describe(survey.other.what));
}

}  // namespace gpuar
