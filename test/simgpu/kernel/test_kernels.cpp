#include "test_kernels.cu"  // meson knows no .cu
