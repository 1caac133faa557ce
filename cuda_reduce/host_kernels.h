// The host kernels of one instruction set, by operation and type.
#pragma once

#include "cuda_reduce/reduce.h"

namespace gpuar {

struct HostKernels {
  ReduceFn at[GPUAR_OP_COUNT][GPUAR_TYPE_COUNT];  // nullptr: not defined by MPI
};

// host_kernels.cpp is compiled once for each.
namespace baseline {
extern const HostKernels kernels;
}
namespace avx2 {
extern const HostKernels kernels;
}
namespace avx512 {
extern const HostKernels kernels;
}

}  // namespace gpuar
