// Ranges in the timeline of a CUDA profiler, by NVTX: one for each call.
#pragma once

#include <cstdint>

namespace gpuar {

// Whether a profiler that takes ranges runs this process: it tells NVTX so in the environment.
// Never in a build without NVTX's headers.
bool profiler_takes_ranges();

// May overlap, and end in another thread than that where they began.
std::uint64_t begin_range(const char* name, std::uint64_t bytes);
void end_range(std::uint64_t range);

}  // namespace gpuar
