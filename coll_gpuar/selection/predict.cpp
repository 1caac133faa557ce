#include <algorithm>

#include "coll_gpuar/selection/rates.h"
#include "coll_gpuar/selection/saturating.h"
#include "coll_gpuar/selection/select.h"

namespace gpuar {
namespace {

// Where a part of a composition moves its data.
enum class Where : std::uint8_t { shared_memory, network };

Link link_of(Where where, Rank talkers, const CallShape& shape, std::uint64_t bytes,
             const Machine& machine) {
  const auto sharers = divide_up(static_cast<std::uint64_t>(talkers), machine.ports);
  return where == Where::network ? rated(machine.network, sharers, shape, bytes, machine)
                                 : rated(machine.shared_memory, 1, shape, bytes, machine);
}

// What one segment takes: from its start to its end, and of each resource.
struct SegmentTime {
  std::uint64_t all = 0;
  std::uint64_t messages = 0;
  std::uint64_t core = 0;     // reductions, and copies where the core makes them
  std::uint64_t copies = 0;   // within a host, where something else makes them
  std::uint64_t network = 0;  // moves data on its own

  [[nodiscard]] std::uint64_t busiest() const {
    return plus(messages, std::max({core, copies, network}));
  }
};

void add(SegmentTime& time, const Cost& cost, const Link& any_link, Where where,
         std::uint64_t bytes, const CallShape& shape, const Machine& machine) {
  if (cost.rounds == 0) return;
  const std::uint64_t reduce_byte = reduce_rate(shape, bytes, machine);
  const std::uint64_t element = element_of(shape);
  const std::uint64_t unit = times(divide_up(divide_up(bytes, element), cost.parts), element);
  const Link link =
      for_messages_of(times(cost.wire, unit) / std::max<std::uint64_t>(cost.messages, 1), any_link);

  const std::uint64_t messages = times(cost.messages, link.message);
  const std::uint64_t reduction = times(times(cost.reduced, unit), reduce_byte);
  const std::uint64_t wire = times(times(cost.wire, unit), link.byte);
  const std::uint64_t sending = times(times(cost.sent, unit), link.byte);

  time.all =
      plus(time.all, plus(plus(times(cost.rounds, link.latency), messages), plus(wire, reduction)));
  time.messages = plus(time.messages, messages);
  time.core = plus(time.core, reduction);
  std::uint64_t& moves = where == Where::network   ? time.network
                         : machine.moves_by_itself ? time.copies
                                                   : time.core;
  moves = plus(moves, sending);
}

}  // namespace

ComposedCost cost_of(const Choice& choice, const CallShape& shape) {
  const LayoutSummary& layout = shape.layout;
  const GroupSizes sizes{shape.ranks, static_cast<Rank>(layout.hosts),
                         static_cast<Rank>(layout.max_ranks_per_host),
                         static_cast<Rank>(layout.min_ranks_per_host)};
  return compositions()[choice.composition].cost(sizes,
                                                 {algorithms()[choice.algorithm], choice.radix});
}

std::uint64_t predict(const Choice& choice, const CallShape& shape, const Machine& machine) {
  const ComposedCost cost = cost_of(choice, shape);
  const std::uint64_t bytes = std::min(choice.segment_bytes, shape.bytes);
  const std::uint64_t divisor = std::max<std::uint64_t>(bytes, 1);
  const std::uint64_t whole = std::max<std::uint64_t>(shape.bytes / divisor, 1);
  const std::uint64_t rest = shape.bytes % divisor;  // a last, shorter segment
  const auto with = [&](Where across) {
    SegmentTime time;
    add(time, cost.within, link_of(Where::shared_memory, 1, shape, bytes, machine),
        Where::shared_memory, bytes, shape, machine);
    add(time, cost.across, link_of(across, cost.talkers, shape, bytes, machine), across, bytes,
        shape, machine);
    const std::uint64_t interval = std::max(time.busiest(), divide_up(time.all, choice.depth));
    const std::uint64_t last =
        rest == 0 ? 0 : plus(time.messages, times(interval - time.messages, rest) / divisor);
    return plus(time.all, plus(times(whole - 1, interval), last));
  };
  if (shape.layout.hosts < 2) return with(Where::shared_memory);
  const bool mixed = choice.composition == flat && shape.layout.max_ranks_per_host > 1;
  return std::max(with(Where::network), mixed ? with(Where::shared_memory) : 0);
}

}  // namespace gpuar
