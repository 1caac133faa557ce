// What a byte costs in one call, caches and the operation taken into account: for the closed
// formulas and for the walk alike.
#pragma once

#include <cstdint>

#include "coll_gpuar/selection/machine.h"
#include "coll_gpuar/selection/select.h"

namespace gpuar {

// A link as a call in segments of so many bytes finds it, where `sharers` ranks use it at the same
// moment. Only the time for bytes is shared; saturates.
Link rated(Link link, std::uint64_t sharers, const CallShape& shape, std::uint64_t segment_bytes,
           const Machine& machine);

// A link as messages of so many bytes find it: fragments, or by rendezvous. Saturates.
Link for_messages_of(std::uint64_t bytes, Link link);

// Picoseconds for each byte of the result of a reduction.
std::uint64_t reduce_rate(const CallShape& shape, std::uint64_t segment_bytes,
                          const Machine& machine);

}  // namespace gpuar
