// Reductions on the host: one functor per operation and type, written once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_reduce/types.h"

namespace gpuar {

// out[i] = left[i] ∘ right[i] for i < count. `out` may be `left` or `right` (the same pointer);
// other overlap is not allowed. Any alignment. Integers wrap as unsigned arithmetic does.
// MIN and MAX are `left < right ? left : right` and its mirror, for floating types too.
using ReduceFn = void (*)(void* out, const void* left, const void* right, std::size_t count);

// The host reduction for an operation on a type, in the widest form that this processor runs;
// nullptr where MPI does not define the pair (a bitwise operation on float, say).
ReduceFn host_reduce(gpuar_op op, gpuar_type type);

// out[i] = in[i] / ranks for i < count: what makes an average of a sum. `out` may be `in`. Any
// alignment. Correctly rounded, in the element's own type; 16-bit types are divided as floats.
using DivideFn = void (*)(void* out, const void* in, std::size_t count, std::int32_t ranks);

// The host division of a floating or complex type; nullptr of any other.
DivideFn host_divide(gpuar_type type);

// Instruction sets that the host reductions are built for, from narrow to wide. The results do not
// depend on the choice, bit by bit.
enum class HostIsa { baseline, avx2, avx512 };

// Makes host_reduce() and host_divide() give functions of `widest` at most, and returns what that
// comes to here: never wider than the processor and the build allow. Affects later calls of
// host_reduce(), from any thread; functions already given out stay valid.
HostIsa limit_host_isa(HostIsa widest);

// The instruction set that host_reduce() uses now: "baseline", "avx2" or "avx512".
const char* host_isa();

// Bytes of one element, padding of pair types included.
std::size_t element_bytes(gpuar_type type);

const char* name_of(gpuar_op op);
const char* name_of(gpuar_type type);

}  // namespace gpuar
