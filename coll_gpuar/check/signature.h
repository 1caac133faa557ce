// What a rank calls, as the ranks of a checked communicator compare it: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "coll_gpuar/schedule/sink.h"
#include "cuda_reduce/types.h"

namespace gpuar {

enum class CallForm : std::uint8_t { blocking, nonblocking, persistent };
// "MPI_Allreduce"
const char* call_of(CallForm form);

// MPI lets ranks match only calls of one form, one operation, and as many elements of one type.
struct Signature {
  std::uint64_t count = 0;
  std::uint32_t element_bytes = 0;
  CallForm form = CallForm::blocking;
  std::uint8_t op = 0;    // a gpuar_op, unless custom
  std::uint8_t type = 0;  // a gpuar_type, unless custom
  bool custom = false;    // the operation is the user's, or the type is
  std::uint8_t average = 0;
  std::uint8_t commutative = 0;
  friend bool operator==(const Signature&, const Signature&) = default;
};

// "MPI_Allreduce of 100 elements of int32, sum"
std::string describe(const Signature& signature);

// What one rank says that it calls; nobody's if the rank is negative.
struct Claim {
  Signature what;
  Rank rank = -1;
};

// What some of the ranks call: the lowest of them, and the lowest one that calls something else.
struct Survey {
  Claim first;
  Claim other;
};

constexpr bool agree(const Survey& survey) {
  return survey.other.rank < 0;
}

// Both surveys in one. Associative and commutative; of ranks that are in one of them only.
Survey merge(const Survey& a, const Survey& b);

// merge() of arrays, as the engine wants a reduction.
void merge_surveys(void* out, const void* left, const void* right, std::size_t count);

// Which ranks disagree, and what each of them calls.
std::string describe(const Survey& survey);

}  // namespace gpuar
