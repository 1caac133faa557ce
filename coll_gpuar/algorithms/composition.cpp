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

ComposedCost flat_cost(std::span<const GroupSizes> levels, const Across& across) {
  const GroupSizes& nodes = levels.front();
  ComposedCost cost;
  cost.across = across.algorithm.cost(nodes.ranks, across.radix);
  if (across.algorithm.crowds_links) cost.talkers.front() = nodes.largest;
  return cost;
}

ComposedCost hierarchy_cost(std::span<const GroupSizes> levels, const Across& across) {
  ComposedCost cost;
  std::uint64_t pieces = 1;
  std::uint64_t busiest = 1;  // pieces of one rank
  for (std::size_t i = 0; i < levels.size(); ++i) {
    cost.within.at(i) = times(two_shot_cost(levels[i].largest), busiest, pieces);
    busiest *= pieces_of_one(levels[i]);
    pieces *= static_cast<std::uint64_t>(levels[i].largest);
    cost.talkers.at(i) = static_cast<Rank>((pieces + busiest - 1) / busiest);
  }
  cost.across = times(across.algorithm.cost(levels.back().groups, across.radix), busiest, pieces);
  return cost;
}

ComposedCost leaders_cost(std::span<const GroupSizes> levels, const Across& across) {
  ComposedCost cost;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    cost.within.at(i) = tree_cost(levels[i].largest, across.radix);
  }
  cost.across = across.algorithm.cost(levels.back().groups, across.radix);
  return cost;
}

// Else the tree that is fixed by rank alone would join the values of groups in a different order on
// each of their ranks.
bool are_subtrees(Levels levels) {
  return std::all_of(levels.begin(), levels.end(),
                     [](const Level& level) { return grouping_of(level) == Grouping::subtrees; });
}

constexpr std::array<Composition, 5> table{{
    {.name = "flat",
     .description = "one algorithm over all ranks",
     .narrate = just_across,
     .pieces = one_piece,
     .cost = flat_cost,
     .has_parts = false,
     .has_radix = false,
     .crowds_links = false,
     .turn = Turn::none},
    {.name = "hierarchy",
     .description = "each rank of a node has a piece to reduce within it, then across the nodes",
     .narrate = hierarchy,
     .pieces = product_of_pieces,
     .cost = hierarchy_cost,
     .has_parts = false,
     .has_radix = false,
     .crowds_links = true,
     .turn = Turn::shift},
    {.name = "leaders",
     .description = "one rank of each node reduces for it, and talks to those of other nodes",
     .narrate = leaders,
     .pieces = one_piece,
     .cost = leaders_cost,
     .has_parts = false,
     .has_radix = true,
     .crowds_links = false,
     .turn = Turn::none},
    {.name = "deep_hierarchy",
     .description = "a hierarchy along packages or NUMA domains, and along the nodes",
     .narrate = hierarchy,
     .pieces = product_of_pieces,
     .cost = hierarchy_cost,
     .has_parts = true,
     .has_radix = false,
     .crowds_links = true,
     .turn = Turn::shift},
    {.name = "deep_leaders",
     .description = "one rank of each package or NUMA domain, and of those one of each node",
     .narrate = leaders,
     .pieces = one_piece,
     .cost = leaders_cost,
     .has_parts = true,
     .has_radix = true,
     .crowds_links = false,
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

Levels levels_of(const Composition& composition, Levels levels) {
  if (&composition == &table[flat] || levels.empty()) return {};
  if (!composition.has_parts) return levels.last(1);
  const bool one_node = levels.size() > 1 && sizes_of(levels.back()).groups == 1;
  return one_node ? levels.first(levels.size() - 1) : levels;
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
  View view{rank, size, {0, chunks}};
  if (!composed && !algorithm.keeps_rank_order && !options.order.empty()) {
    const auto at = std::find(options.order.begin(), options.order.end(), rank);
    view.position = static_cast<Rank>(at - options.order.begin());
    view.ranks = options.order;
  }
  composition.narrate(view, levels, {algorithm, options.radix}, builder);
  return std::move(builder).finish();
}

}  // namespace gpuar
