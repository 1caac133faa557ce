#include "cuda_reduce/kernels.cu"  // meson knows no .cu
