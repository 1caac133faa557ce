// An operation that does not commute, on MPI_UINT32_T: it shows the order of ranks.
#pragma once

#include <mpi.h>

#include <cstdint>

namespace mpitest {

inline void compose(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  // 32 bits are an affine map x -> a·x + b (mod 2^16): composing does not commute.
  for (int i = 0; i < *count; ++i) {
    const std::uint32_t left = static_cast<std::uint32_t*>(in)[i];
    std::uint32_t& right = static_cast<std::uint32_t*>(inout)[i];
    const std::uint32_t a = (left >> 16U) * (right >> 16U);
    const std::uint32_t b = (left >> 16U) * (right & 0xffffU) + (left & 0xffffU);
    right = a << 16U | (b & 0xffffU);
  }
}

}  // namespace mpitest
