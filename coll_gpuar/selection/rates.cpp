#include "coll_gpuar/selection/rates.h"

#include <algorithm>

#include "coll_gpuar/selection/saturating.h"

namespace gpuar {
namespace {

bool from_memory(const CallShape& shape, const Machine& machine) {
  return shape.bytes > std::max(machine.cached_message, shape.layout.cache_per_rank / 4);
}

std::uint64_t uncached(const CallShape& shape, std::uint64_t segment_bytes,
                       const Machine& machine) {
  const std::uint64_t lies = from_memory(shape, machine)               ? machine.uncached_byte
                             : shape.bytes > machine.own_cache_message ? machine.shared_cache_byte
                                                                       : 0;
  return lies + (segment_bytes > machine.cached_segment ? machine.uncached_byte : 0);
}

}  // namespace

Link rated(Link link, std::uint64_t sharers, const CallShape& shape, std::uint64_t segment_bytes,
           const Machine& machine) {
  link.byte = plus(times(link.byte, std::max<std::uint64_t>(sharers, 1)),
                   uncached(shape, segment_bytes, machine));
  if (shape.layout.oversubscribed) link.latency = plus(link.latency, machine.oversubscribed);
  return link;
}

Link for_messages_of(std::uint64_t bytes, Link link) {
  if (bytes <= link.fragment) return link;
  link.message = plus(link.message, link.rendezvous);
  link.byte = plus(link.byte, link.rendezvous_byte);
  return link;
}

std::uint64_t reduce_rate(const CallShape& shape, std::uint64_t segment_bytes,
                          const Machine& machine) {
  return plus(shape.custom ? machine.custom_byte : machine.reduce_byte,
              uncached(shape, segment_bytes, machine));
}

}  // namespace gpuar
