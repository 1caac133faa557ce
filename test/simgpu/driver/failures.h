// Injected failures. A rule is  FUNCTION[@OBJECT]:N[+][:ERROR]
//
// The N-th call (counted from 1, from now) of FUNCTION from a shared object whose name contains
// OBJECT returns ERROR and does nothing; with N+ every later call too. The name may leave out
// the version (_v2). ERROR is a CUresult; without it: out of memory for what allocates, launch
// failure for launches, else CUDA_ERROR_UNKNOWN.
// FUNCTION "kernel" stands for the N-th kernel that runs: it fails on its stream, and the error
// sticks to its context, as on a device.
#pragma once
#include <cuda.h>

#include <atomic>
#include <string>

namespace simgpu {

struct Caller;

// Any rules at all? Read on every call.
extern std::atomic<bool> failures_armed;

// Adds the rules of a comma-separated list; false if it cannot be read.
bool add_failures(const std::string& list);
void clear_failures();
// Once: those of the environment.
void add_failures_of_environment();

// What this call shall return instead of being made; CUDA_SUCCESS: nothing.
CUresult injected(const char* function, const Caller* caller);

}  // namespace simgpu
