// A call's range in a profiler's timeline.
#pragma once

#include <cstdint>

#include "coll_gpuar/engine/run.h"

namespace gpuar {

// Named after algorithm, bytes and communicator; to be ended by end_range().
std::uint64_t begin_call_range(const Run& run);

}  // namespace gpuar
