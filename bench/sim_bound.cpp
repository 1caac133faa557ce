#include "bench/sim_bound.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

namespace bench {
namespace {

// The way within a node, whichever is the shorter where it has packages.
gpuar::Link within_of(const ImaginedMachine& imagined) {
  gpuar::Link link = imagined.fabric.machine.shared_memory;
  if (imagined.packages_per_node == 1) return link;
  const gpuar::Link& between = imagined.fabric.machine.between_parts;
  link.latency = std::min(link.latency, between.latency);
  link.message = std::min(link.message, between.message);
  link.byte = std::min(link.byte, between.byte);
  return link;
}

}  // namespace

std::uint64_t reach(const gpuar::Link& link, std::uint64_t count) {
  // When each of those who have it can send next.
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> free;
  free.push(0);
  std::uint64_t last = 0;
  for (std::uint64_t reached = 1; reached < count; ++reached) {
    const std::uint64_t sent = free.top() + link.message;
    free.pop();
    last = sent + link.latency;
    free.push(sent);
    free.push(last);
  }
  return last;
}

LowerBound lower_bound(const ImaginedMachine& imagined, std::uint64_t nodes, std::uint64_t bytes) {
  const gpuar::Machine& machine = imagined.fabric.machine;
  const gpuar::Link memory = within_of(imagined);
  const auto ranks = static_cast<double>(imagined.ranks_per_node);
  const auto all_nodes = static_cast<double>(nodes);
  const auto size = static_cast<double>(bytes);

  // Reduced to parts and gathered, a vector leaves everybody twice, but for the own part; and of
  // all reductions each rank makes its share.
  const double apart = 2 * (ranks - 1) / ranks * size;
  const double reduced = (1 - 1 / (ranks * all_nodes)) * size;
  const double across = 2 * (all_nodes - 1) / all_nodes * size;

  const auto uncached =
      static_cast<double>(bytes > machine.cached_message ? machine.uncached_byte : 0);
  const double copying = apart * (static_cast<double>(memory.byte) + uncached);
  const double reducing = reduced * (static_cast<double>(machine.reduce_byte) + uncached);
  const double within = machine.moves_by_itself ? std::max(copying, reducing) : copying + reducing;
  const double ports = std::min(static_cast<double>(machine.ports), ranks);
  const double network = across * static_cast<double>(machine.network.byte) / ports;

  LowerBound bound;
  bound.rounds_ps =
      reach(machine.network, nodes) + reach(memory, static_cast<std::uint64_t>(ranks));
  bound.bytes_ps = static_cast<std::uint64_t>(std::max(within, network));
  return bound;
}

}  // namespace bench
