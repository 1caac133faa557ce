// What a kernel that was compiled for the host exports: one object simgpu_kernel_NAME each.
#pragma once
#include <cstddef>

extern "C" {
struct simgpu_kernel {
  const char* name;
  unsigned parameters;
  const size_t* sizes;  // of the parameters, in bytes
  // Runs the whole grid. grid and block: x, y, z.
  void (*run)(const unsigned* grid, const unsigned* block, void** parameters);
};
}
