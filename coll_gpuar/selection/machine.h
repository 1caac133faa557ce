// The constants of the cost model, in one place. Integers (picoseconds), so that all ranks compute
// the same choice whatever their compiler and processor make of floating point.
#pragma once

#include <cstdint>

namespace gpuar {

// One message takes latency from one rank to the other, and occupies either end for `message`
// plus `byte` for each byte. One of more than `fragment` bytes is not sent at once: its receiver
// has to reach into the sender's memory, which costs `rendezvous`, and `rendezvous_byte` for each
// byte, more. One that is stored on its way takes `stored_byte` for each byte longer, while neither
// end is occupied.
struct Link {
  std::uint64_t latency;  // ps
  std::uint64_t message;  // ps
  std::uint64_t byte;     // ps
  std::uint64_t fragment = ~std::uint64_t{0};
  std::uint64_t rendezvous = 0;       // ps
  std::uint64_t rendezvous_byte = 0;  // ps
  std::uint64_t stored_byte = 0;      // ps
};

constexpr std::uint32_t port_for_each_rank = ~std::uint32_t{0};

struct Machine {
  Link shared_memory{900'000, 300'000, 30, 63488, 2'200'000, 40};
  // Between the packages (or NUMA domains) of a host, where so many ranks of a package talk to
  // others at full speed at the same moment. From data sheets, not measured yet.
  Link between_parts{1'300'000, 300'000, 40, 63488, 2'200'000, 40};
  std::uint32_t streams = 3;
  Link network{25'000'000, 1'000'000, 1'000};
  std::uint64_t reduce_byte = 40;     // ps; of the result, operands in the cache
  std::uint64_t custom_byte = 1'000;  // ps; by a user-defined operation
  // A message larger than this lies in the last-level cache, not in the ranks' own (input, output
  // and what comes from others have to fit): each byte moved or reduced costs more.
  std::uint64_t own_cache_message = 524288;
  std::uint64_t shared_cache_byte = 18;  // ps, for either
  // One larger than a quarter of a rank's share of the last-level cache, or than this, comes from
  // memory, which costs still more. A segment larger than that does not stay in the cache between
  // its steps either.
  std::uint64_t cached_message = 262144;
  std::uint64_t cached_segment = 1048576;
  std::uint64_t uncached_byte = 30;           // ps, for either
  std::uint64_t oversubscribed = 10'000'000;  // ps, more for each message if ranks share cores
  // The same where they all share those of one host: a rank's way from one turn to the next takes
  // that for each rank of a core.
  std::uint64_t turn = 600'000;  // ps
  // Work of the cores for a message between hosts that are really one machine, and for each of its
  // bytes: the kernel's for TCP, and waking up. The number of messages counts for vectors up to so
  // many bytes; beyond, the speed of links decides.
  std::uint64_t crossing = 14'000'000;  // ps
  std::uint64_t crossing_byte = 300;    // ps
  std::uint64_t crossing_bytes = 16384;
  // Within a host, too, data is moved by others than who reduces.
  bool moves_by_itself = false;
  std::uint32_t ports = 1;  // ways out of a host, shared by its ranks
  std::uint32_t depth = 2;  // segments in flight
  // Longer ones would leave the caches between their steps.
  std::uint64_t largest_segment = 3932160;
  std::uint64_t most_in_flight = ~std::uint64_t{0};  // bytes of segments, for their scratch's sake
};

// For communicators that are expected to reduce device memory. Every message and every reduction
// costs a launch and a poll; bytes are cheap, and copy engines, links and reductions work side by
// side. Taken from data sheets (NVLink between processes, a 200 Gbit/s port for each), not measured
// yet.
constexpr Machine device_machine() {
  Machine machine;
  machine.shared_memory = machine.between_parts = {10'000'000, 8'000'000, 10};
  machine.streams = port_for_each_rank;
  machine.network = {15'000'000, 8'000'000, 40};
  machine.reduce_byte = 2;
  machine.own_cache_message = machine.cached_message = machine.cached_segment = ~std::uint64_t{0};
  machine.shared_cache_byte = machine.uncached_byte = 0;
  machine.moves_by_itself = true;
  machine.ports = port_for_each_rank;
  machine.depth = 4;
  // Messages cost more there than bytes; what bounds segments is the scratch that they take. It is
  // twice of what is in flight at most, which the pool of a device keeps.
  machine.largest_segment = std::uint64_t{28} << 20;
  machine.most_in_flight = std::uint64_t{112} << 20;
  return machine;
}

// The same where UCX does not carry device memory: every message is copied to pinned host memory,
// sent from there, and copied up again. Segments are what lets these copies, the way between ranks
// and reductions work side by side.
constexpr Machine staged_machine() {
  Machine machine = device_machine();
  machine.shared_memory = machine.between_parts = {
      .latency = 25'000'000, .message = 12'000'000, .byte = 50, .stored_byte = 80};
  machine.network = {.latency = 40'000'000, .message = 12'000'000, .byte = 50, .stored_byte = 80};
  machine.largest_segment = std::uint64_t{7} << 19;
  return machine;
}

}  // namespace gpuar
