#include <algorithm>

#include "coll_gpuar/selection/rates.h"
#include "coll_gpuar/selection/saturating.h"
#include "coll_gpuar/selection/select.h"

namespace gpuar {
namespace {

// Where a part of a composition moves its data: within a package (or within a host that is not
// divided), between the packages of a host, between hosts.
enum class Where : std::uint8_t { within, between, network };

Link link_of(Where where, Rank talkers, const CallShape& shape, std::uint64_t bytes,
             const Machine& machine) {
  const auto all = static_cast<std::uint64_t>(talkers);
  switch (where) {
    case Where::within:
      break;
    case Where::between:
      return rated(machine.between_parts, divide_up(all, machine.streams), shape, bytes, machine);
    case Where::network:
      return rated(machine.network, divide_up(all, machine.ports), shape, bytes, machine);
  }
  return rated(machine.shared_memory, 1, shape, bytes, machine);
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
  const std::uint64_t wire = times(times(cost.wire, unit), plus(link.byte, link.stored_byte));
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

// A choice on a layout: which of its messages go where.
struct Paths {
  const Composition& composition;
  const LayoutSummary& layout;

  [[nodiscard]] bool is_flat() const { return &composition == &compositions()[flat]; }
  [[nodiscard]] bool is_divided() const { return layout.parts > 0; }

  // Those of its innermost groups.
  [[nodiscard]] bool inside(Where where) const {
    if (where == Where::within) return true;
    return where == Where::between && is_divided() && !composition.has_parts;
  }

  // Those across. All of a flat algorithm do both.
  [[nodiscard]] bool across(Where where) const {
    if (where == Where::network) return layout.hosts > 1;
    if (!is_flat()) return where == Where::between && layout.hosts == 1;
    return layout.max_ranks_per_host > 1 && inside(where);
  }
};

// Ranks of a package that talk to other packages of their host at the same moment.
Rank crowd(const Choice& choice, const ComposedCost& cost, const LayoutSummary& layout) {
  const Composition& composition = compositions()[choice.composition];
  if (composition.has_parts) return cost.talkers.front();
  const bool crowds = choice.composition == flat ? algorithms()[choice.algorithm].crowds_links
                                                 : composition.crowds_links;
  return crowds ? static_cast<Rank>(layout.max_ranks_per_part) : 1;
}

}  // namespace

std::vector<GroupSizes> group_sizes_of(const Composition& composition, const LayoutSummary& layout,
                                       Rank ranks) {
  if (!composition.has_parts) {
    return {{ranks, static_cast<Rank>(layout.hosts), static_cast<Rank>(layout.max_ranks_per_host),
             static_cast<Rank>(layout.min_ranks_per_host)}};
  }
  std::vector<GroupSizes> levels{{ranks, static_cast<Rank>(layout.parts),
                                  static_cast<Rank>(layout.max_ranks_per_part),
                                  static_cast<Rank>(layout.min_ranks_per_part)}};
  if (layout.hosts > 1) {
    levels.push_back({static_cast<Rank>(layout.parts), static_cast<Rank>(layout.hosts),
                      static_cast<Rank>(layout.max_parts_per_host),
                      static_cast<Rank>(layout.min_parts_per_host)});
  }
  return levels;
}

ComposedCost cost_of(const Choice& choice, const CallShape& shape) {
  const Composition& composition = compositions()[choice.composition];
  return composition.cost(group_sizes_of(composition, shape.layout, shape.ranks),
                          {algorithms()[choice.algorithm], choice.radix});
}

std::uint64_t predict(const Choice& choice, const CallShape& shape, const Machine& machine) {
  const ComposedCost cost = cost_of(choice, shape);
  const Segments cut = segments_of(choice, shape);
  const Rank crossing = crowd(choice, cost, shape.layout);
  const bool deep = compositions()[choice.composition].has_parts && shape.layout.hosts > 1;
  const auto with = [&](Where inside, Where across) {
    SegmentTime time;
    const auto count = [&](const Cost& part, Where where) {
      const Rank talkers = where == Where::network ? cost.talkers.at(deep ? 1 : 0) : crossing;
      add(time, part, link_of(where, talkers, shape, cut.bytes, machine), where, cut.bytes, shape,
          machine);
    };
    count(cost.within.front(), inside);
    count(cost.within.back(), Where::between);
    count(cost.across, across);
    const std::uint64_t interval = std::max(time.busiest(), divide_up(time.all, choice.depth));
    const std::uint64_t last =
        cut.rest == 0 ? 0
                      : plus(time.messages, times(interval - time.messages, cut.rest) / cut.bytes);
    return plus(time.all, plus(times(cut.whole - 1, interval), last));
  };
  const Paths paths{compositions()[choice.composition], shape.layout};
  std::uint64_t slowest = 0;
  for (const Where inside : {Where::within, Where::between}) {
    for (const Where across : {Where::within, Where::between, Where::network}) {
      if (!paths.inside(inside) || !paths.across(across)) continue;
      slowest = std::max(slowest, with(inside, across));
    }
  }
  return slowest;
}

}  // namespace gpuar
