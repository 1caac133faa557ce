// The constants of the cost model, in one place. Integers (picoseconds), so that all ranks compute
// the same choice whatever their compiler and processor make of floating point.
#pragma once

#include <cstdint>

namespace gpuar {

// One message takes latency from one rank to the other, and occupies either end for `message`
// plus `byte` for each byte.
struct Link {
  std::uint64_t latency;  // ps
  std::uint64_t message;  // ps
  std::uint64_t byte;     // ps
};

struct Machine {
  Link shared_memory{1'200'000, 300'000, 120};
  Link network{25'000'000, 1'000'000, 1'000};
  std::uint64_t reduce_byte = 100;     // ps; of the result, operands in the cache
  std::uint64_t custom_byte = 1'000;   // ps; by a user-defined operation
  std::uint64_t uncached_byte = 60;    // ps, more for each byte moved or reduced if the segment
  std::uint64_t cache_bytes = 524288;  // is larger than this
  std::uint64_t oversubscribed = 10'000'000;  // ps, more for each message if ranks share cores
};

}  // namespace gpuar
