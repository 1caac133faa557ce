#include "coll_gpuar/algorithms/composition.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpuar {
namespace {

std::uint32_t one_piece(Levels /*levels*/, Rank /*size*/) {
  return 1;
}

// On each level the groups of the one below count as one rank each.
std::uint32_t product_of_pieces(Levels levels, Rank size) {
  std::uint32_t pieces = 1;
  View view{0, size};
  std::vector<Rank> leaders;
  for (const Level& level : levels) {
    const Groups groups(view, level);
    pieces *= groups.pieces();
    leaders = groups.leaders();
    view = view_of(leaders, 0, view.chunks);
  }
  return pieces;
}

Cost times(Cost cost, std::uint64_t messages, std::uint64_t parts) {
  cost.parts *= parts;
  cost.messages *= messages;
  cost.wire *= messages;
  cost.sent *= messages;
  cost.reduced *= messages;
  return cost;
}

void just_across(const View& view, Levels /*levels*/, const Across& across, Sink& sink) {
  across(view, sink);
}

ComposedCost flat_cost(const GroupSizes& sizes, const Across& across) {
  return {{},
          across.algorithm.cost(sizes.ranks, across.radix),
          across.algorithm.crowds_links ? sizes.largest : 1};
}

ComposedCost hierarchy_cost(const GroupSizes& sizes, const Across& across) {
  const std::uint32_t busiest = pieces_of_one(sizes);
  const auto pieces = static_cast<std::uint64_t>(sizes.largest);
  const Cost one = across.algorithm.cost(sizes.groups, across.radix);
  return {two_shot_cost(sizes.largest), times(one, busiest, pieces),
          static_cast<Rank>((pieces + busiest - 1) / busiest)};
}

ComposedCost leaders_cost(const GroupSizes& sizes, const Across& across) {
  return {tree_cost(sizes.largest, across.radix), across.algorithm.cost(sizes.groups, across.radix),
          1};
}

// Else the tree that is fixed by rank alone would join the values of groups in a different order on
// each of their ranks.
bool are_subtrees(Levels levels) {
  return std::all_of(levels.begin(), levels.end(),
                     [](const Level& level) { return grouping_of(level) == Grouping::subtrees; });
}

constexpr std::array<Composition, 3> table{{
    {.name = "flat",
     .description = "one algorithm over all ranks",
     .narrate = just_across,
     .pieces = one_piece,
     .cost = flat_cost,
     .has_radix = false,
     .turn = Turn::none},
    {.name = "hierarchy",
     .description = "each rank of a node has a piece to reduce within it, then across the nodes",
     .narrate = hierarchy,
     .pieces = product_of_pieces,
     .cost = hierarchy_cost,
     .has_radix = false,
     .turn = Turn::shift},
    {.name = "leaders",
     .description = "one rank of each node reduces for it, and talks to those of other nodes",
     .narrate = leaders,
     .pieces = one_piece,
     .cost = leaders_cost,
     .has_radix = true,
     .turn = Turn::none},
}};

}  // namespace

std::span<const Composition> compositions() {
  return table;
}

const Composition* find_composition(std::string_view name) {
  const auto* found = std::find_if(table.begin(), table.end(),
                                   [name](const Composition& known) { return known.name == name; });
  return found == table.end() ? nullptr : found;
}

std::uint32_t pieces_of_one(const GroupSizes& sizes) {
  const Rank smallest = std::max<Rank>(sizes.smallest, 1);
  return static_cast<std::uint32_t>((std::max<Rank>(sizes.largest, 1) + smallest - 1) / smallest);
}

Schedule build(const Composition& composition, const Algorithm& algorithm, Rank rank, Rank size,
               Levels levels, const BuildOptions& options) {
  const bool composed = &composition != &table[flat];
  const Rank across = composed && !levels.empty() ? sizes_of(levels.back()).groups : size;
  check_serves(algorithm, across, options.radix);
  const std::uint32_t chunks = composition.pieces(levels, size) * algorithm.chunks(across);
  BuilderOptions how = options.builder;
  if (composed && !are_subtrees(levels)) how.association = Association::chain;
  Builder builder(rank, size, chunks, how);
  composition.narrate(View{rank, size, {0, chunks}}, levels, {algorithm, options.radix}, builder);
  return std::move(builder).finish();
}

}  // namespace gpuar
