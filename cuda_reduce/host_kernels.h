// The host kernels of one instruction set, by operation and type.
#pragma once

#include "cuda_reduce/reduce.h"

namespace gpuar {

struct HostKernels {
  // nullptr: left to a narrower set; in the baseline: not defined
  ReduceFn at[GPUAR_OP_COUNT][GPUAR_TYPE_COUNT];
  DivideFn divide[GPUAR_TYPE_COUNT];
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
