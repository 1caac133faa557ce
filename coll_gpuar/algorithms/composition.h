// How the algorithms are composed over groups of ranks: not at all, or along the nodes.
#pragma once

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

// The closed formula of one segment with one level of groups, each part as Cost says. Of equal
// groups; where they differ, of the busiest rank or more.
struct ComposedCost {
  Cost within;
  Cost across;
  Rank talkers = 1;  // ranks of a group that talk to other groups at the same moment
};

struct Composition {
  std::string_view name;
  std::string_view description;  // one line
  void (*narrate)(const View& view, Levels levels, const Across& across, Sink& sink);
  std::uint32_t (*pieces)(Levels levels, Rank size);  // each is cut for the algorithm across
  ComposedCost (*cost)(const GroupSizes& sizes, const Across& across);
  bool has_radix;  // looks at it, whatever the algorithm across does
  Turn turn;       // of the ranks within each of equal nodes
};

// Flat (one algorithm over all ranks, whatever the groups) comes first.
std::span<const Composition> compositions();
inline constexpr std::uint32_t flat = 0;

// By name; null if there is none such.
const Composition* find_composition(std::string_view name);

// How many of the pieces the rank of the smallest group works for that works for most.
std::uint32_t pieces_of_one(const GroupSizes& sizes);

// The schedule of one rank of a communicator of as many ranks as each level has entries. Where
// groups are no subtrees, operands are joined in a chain, whatever the options say. Throws
// std::invalid_argument on a radix or a number of groups that the algorithm cannot serve, and
// std::length_error on too many messages between two ranks.
Schedule build(const Composition& composition, const Algorithm& algorithm, Rank rank, Rank size,
               Levels levels, const BuildOptions& options = {});

}  // namespace gpuar
