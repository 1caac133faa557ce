// Kernels of the simulator's own tests: one source for nvcc and for the host.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#ifndef EXPORT_KERNEL
#define EXPORT_KERNEL(kernel)
#endif

namespace {

template <class T>
__device__ __forceinline__ T add(T a, T b) {
  return a + b;
}
template <>
__device__ __forceinline__ __half add(__half a, __half b) {
  return __float2half_rn(__half2float(a) + __half2float(b));
}
template <>
__device__ __forceinline__ __nv_bfloat16 add(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __float2bfloat16_rn(__bfloat162float(a) + __bfloat162float(b));
}

template <class T>
union alignas(16) Pack {
  uint4 raw;
  T value[16 / sizeof(T)];
  __device__ Pack() {}
};

template <class T>
__device__ __forceinline__ void sum(T* to, const T* from, size_t n) {
  constexpr size_t kEach = 16 / sizeof(T);
  const size_t first = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  const size_t step = size_t(gridDim.x) * blockDim.x;
  size_t done = 0;
  if (((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) & 15) == 0) {
    for (size_t i = first; i < n / kEach; i += step) {
      Pack<T> a, b;
      a.raw = reinterpret_cast<const uint4*>(to)[i];
      b.raw = __ldg(reinterpret_cast<const uint4*>(from) + i);
      for (size_t k = 0; k < kEach; k++) a.value[k] = add(a.value[k], b.value[k]);
      reinterpret_cast<uint4*>(to)[i] = a.raw;
    }
    done = n / kEach * kEach;
  }
  for (size_t i = done + first; i < n; i += step) to[i] = add(to[i], from[i]);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes none
#define KERNEL(name, T)                                                                    \
  extern "C" __global__ void __launch_bounds__(256) name(T* to, const T* from, size_t n) { \
    sum<T>(to, from, n);                                                                   \
  }                                                                                        \
  EXPORT_KERNEL(name)
// NOLINTEND(bugprone-macro-parentheses)
KERNEL(simtest_sum_f32, float)
KERNEL(simtest_sum_f64, double)
KERNEL(simtest_sum_i32, int32_t)
KERNEL(simtest_sum_f16, __half)
KERNEL(simtest_sum_bf16, __nv_bfloat16)

// The shape of the product's kernels: everything in one struct by value, 4 KB of it.
struct Batch {
  const float* from[500];
  float* to;
  int count;
  size_t n;
};

extern "C" __global__ void simtest_batch(const __grid_constant__ Batch batch) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < batch.n;
       i += size_t(gridDim.x) * blockDim.x) {
    float value = batch.to[i];
    for (int k = 0; k < batch.count; k++) value += batch.from[k][i];
    batch.to[i] = value;
  }
}
EXPORT_KERNEL(simtest_batch)
