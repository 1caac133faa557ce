// Included first (-include) when a .cu file is compiled for the host. CUDA's own headers supply the
// vector types and the host side of half and bfloat16 and make __global__ and __device__ nothing;
// this adds what only nvcc knows. Each kernel is exported by EXPORT_KERNEL(name), which the .cu
// file defines as nothing for nvcc. The threads of a block run one after another, so a kernel must
// not use shared memory, __syncthreads or warp functions: they are not declared here.
#pragma once
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <type_traits>
#include <utility>

#include "descriptor.h"

namespace simgpu {

inline thread_local uint3 thread_index, block_index;
inline thread_local dim3 block_size, grid_size;

template <auto kernel>
struct Exported;

template <class... Parameters, void (*kernel)(Parameters...)>
struct Exported<kernel> {
  static constexpr unsigned count = sizeof...(Parameters);
  // NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers, too, it is their own size
  static constexpr size_t sizes[count + 1] = {sizeof(Parameters)..., 0};

  template <size_t... i>
  static void call(void** parameters, std::index_sequence<i...>) {
    kernel(*static_cast<std::remove_cv_t<Parameters>*>(parameters[i])...);
  }

  static void run(const unsigned* grid, const unsigned* block, void** parameters) {
    grid_size = dim3(grid[0], grid[1], grid[2]);
    block_size = dim3(block[0], block[1], block[2]);
    uint3& b = block_index;
    uint3& t = thread_index;
    for (b.z = 0; b.z < grid[2]; b.z++)
      for (b.y = 0; b.y < grid[1]; b.y++)
        for (b.x = 0; b.x < grid[0]; b.x++)
          for (t.z = 0; t.z < block[2]; t.z++)
            for (t.y = 0; t.y < block[1]; t.y++)
              for (t.x = 0; t.x < block[0]; t.x++)
                call(parameters, std::index_sequence_for<Parameters...>{});
  }
};

}  // namespace simgpu

#define threadIdx simgpu::thread_index
#define blockIdx simgpu::block_index
#define blockDim simgpu::block_size
#define gridDim simgpu::grid_size

#define EXPORT_KERNEL(kernel)                                                              \
  extern "C" [[gnu::visibility("default")]] const simgpu_kernel simgpu_kernel_##kernel = { \
      #kernel, simgpu::Exported<kernel>::count, simgpu::Exported<kernel>::sizes,           \
      simgpu::Exported<kernel>::run};

#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif
#ifndef __grid_constant__
#define __grid_constant__
#endif

// Loads and stores with a hint for the cache.
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldlu(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}
template <class T>
void __stwt(T* to, T value) {
  *to = value;
}

// Arithmetic that nvcc never contracts; nor does the compiler here (-ffp-contract=off).
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __ddiv_rn(double a, double b) {
  return a / b;
}
