// What tests may ask of the simulated driver beyond CUDA. A program finds these in libcuda.so.1 by
// dlsym; where there are none, the driver is a real one.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// How often a driver function was called ("cuLaunchKernel", with its version: "cuMemAlloc_v2"), or
// one of the sums copies_h2d, copies_d2h, copies_d2d, copies_h2h, bytes_h2d, …, launches. Managed
// memory counts as device memory. "NAME@OBJECT" counts only what shared objects (or programs) did
// whose file name contains OBJECT.
unsigned long long simgpu_counter(const char* name);
void simgpu_reset_counters(void);

// Adds failures to inject, as SIMGPU_FAIL does (driver/failures.h); null removes all. 0, or -1 if
// the rules cannot be read.
int simgpu_fail(const char* rules);

#ifdef __cplusplus
}
#endif
