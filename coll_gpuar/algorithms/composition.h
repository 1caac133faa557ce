// How the algorithms are composed over groups of ranks: not at all, along the nodes, or along the
// parts of nodes (packages, NUMA domains) as well.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/groups.h"

namespace gpuar {

// The allreduce over the outermost groups.
struct Across {
  const Algorithm& algorithm;
  std::uint32_t radix;
  void operator()(const View& view, Sink& sink) const { algorithm.narrate(view, radix, sink); }
};

// One file each; there is the picture and where the formula comes from.
void hierarchy(const View& view, Levels levels, const Across& across, Sink& sink);
void leaders(const View& view, Levels levels, const Across& across, Sink& sink);

inline constexpr std::size_t most_levels = 2;

// The closed formula of one segment, each part as Cost says. Of equal groups; where they differ, of
// the busiest rank or more.
struct ComposedCost {
  std::array<Cost, most_levels> within;  // the groups of each level, innermost first
  Cost across;
  // By level, ranks of one of its groups that talk to other groups at the same moment.
  std::array<Rank, most_levels> talkers{1, 1};
};

struct Composition {
  std::string_view name;
  std::string_view description;  // one line
  void (*narrate)(const View& view, Levels levels, const Across& across, Sink& sink);
  std::uint32_t (*pieces)(Levels levels, Rank size);  // each is cut for the algorithm across
  // Of the levels that it is composed over, innermost first; each counts the groups of the one
  // before as its ranks. Flat: of the nodes.
  ComposedCost (*cost)(std::span<const GroupSizes> levels, const Across& across);
  bool has_parts;     // composed over the parts of nodes, too
  bool has_radix;     // looks at it, whatever the algorithm across does
  bool crowds_links;  // within a group all ranks talk to all others at the same moment
  Turn turn;          // of the ranks within each of equal groups
};

// Flat (one algorithm over all ranks, whatever the groups) comes first.
std::span<const Composition> compositions();
inline constexpr std::uint32_t flat = 0;

// By name; null if there is none such.
const Composition* find_composition(std::string_view name);

// Those of a communicator's levels that it is composed over: none, its nodes, or all. `levels` are
// the parts of nodes, if they have some, and the nodes; a single node is no level of its own where
// it has parts.
Levels levels_of(const Composition& composition, Levels levels);

// How many of the pieces the rank of the smallest group works for that works for most.
std::uint32_t pieces_of_one(const GroupSizes& sizes);

// The schedule of one rank of a communicator of as many ranks as each level has entries. Where
// groups are no subtrees, operands are joined in a chain, whatever the options say. Flat, an
// algorithm that does not keep the order of ranks anyway takes them in `options.order`. Throws
// std::invalid_argument on a radix or a number of groups that the algorithm cannot serve, and
// std::length_error on too many messages between two ranks.
Schedule build(const Composition& composition, const Algorithm& algorithm, Rank rank, Rank size,
               Levels levels, const BuildOptions& options = {});

}  // namespace gpuar
