// The compiled kernels, as embedded in this build.
#pragma once

#include <string>

#include "cuda_reduce/types.h"

namespace gpuar::kernel {

// A fat binary for cuModuleLoadData; nullptr in a build without the CUDA toolkit.
const void* image();

// Whether a kernel for it exists, compiled in or not.
bool is_on_device(gpuar_op op, gpuar_type type);

// The same of the division of a finished sum.
bool divides_on_device(gpuar_type type);

// "gpuar_sum_float32": the kernel that serves the operation on the type, which need not be named
// after that very type. Empty if none does.
std::string name_of_kernel(gpuar_op op, gpuar_type type);
// "gpuar_divide_float32".
std::string name_of_division(gpuar_type type);

}  // namespace gpuar::kernel
