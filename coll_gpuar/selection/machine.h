// The constants of the cost model, in one place. Integers (picoseconds), so that all ranks compute
// the same choice whatever their compiler and processor make of floating point.
#pragma once

#include <cstdint>

namespace gpuar {

// One message takes latency from one rank to the other, and occupies either end for `message`
// plus `byte` for each byte. Bytes that the sender itself has just received or reduced cost
// `forwarded` more: in shared memory they lie in its own cache and are fetched from there, while an
// input that nobody has touched is shared by all caches.
struct Link {
  std::uint64_t latency;    // ps
  std::uint64_t message;    // ps
  std::uint64_t byte;       // ps
  std::uint64_t forwarded;  // ps
};

struct Machine {
  Link shared_memory{1'200'000, 300'000, 60, 100};
  Link network{25'000'000, 1'000'000, 1'000, 0};
  std::uint64_t reduce_byte = 40;     // ps; of the result, operands in the cache
  std::uint64_t custom_byte = 1'000;  // ps; by a user-defined operation
  // A message larger than this comes from memory: each byte moved or reduced costs more, and
  // forwarding no more than anything else. A segment larger than that does not stay in the cache
  // between its steps either.
  std::uint64_t cached_message = 262144;
  std::uint64_t cached_segment = 524288;
  std::uint64_t uncached_byte = 30;           // ps, for either
  std::uint64_t oversubscribed = 10'000'000;  // ps, more for each message if ranks share cores
};

}  // namespace gpuar
