// Modules and kernels.
#pragma once
#include <cuda.h>

#include <string>

#include "../kernel/descriptor.h"
#include "handles.h"

namespace simgpu {

struct Caller;
struct Context;

struct Module {
  Context& context;
  std::string image;  // what may hold the names of kernels
  bool placeholder = false;
  const Caller* maker = nullptr;
};

struct Function {
  Context& context;
  CUmodule module;
  const simgpu_kernel& kernel;
};

Handles<CUmodule, Module>& modules();
Handles<CUfunction, Function>& functions();

}  // namespace simgpu
