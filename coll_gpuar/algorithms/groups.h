// Groups of ranks, and groups of groups: what a hierarchy is composed over.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coll_gpuar/algorithms/view.h"
#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

// One level of groups: by rank of the communicator, the number of its group. Numbers are from 0 on,
// below the number of ranks.
using Level = std::vector<std::int32_t>;

// Innermost first (NUMA domains before nodes, say); every group lies within one of the next level.
using Levels = std::span<const Level>;

// The groups of one level among the ranks of a view. Besides its own group, a view belongs to one
// group across for each piece of the vector that it works for: there, each group of the level is
// represented by the one rank that works for this piece.
class Groups {
 public:
  Groups(const View& view, const Level& level);

  // The vector is cut into as many pieces as the largest group has ranks. A smaller group shares
  // them out, so that some of its ranks work for several.
  [[nodiscard]] std::uint32_t pieces() const { return pieces_; }

  // My own group, on the whole vector. Refers to this object.
  [[nodiscard]] View mine(const View& view) const;

  // Those of the pieces that I work for.
  [[nodiscard]] Span my_pieces() const;

  // The ranks that work for a piece, one of each group, ascending.
  [[nodiscard]] std::vector<Rank> workers(std::uint32_t piece) const;

  // The first rank of each group, ascending.
  [[nodiscard]] std::vector<Rank> leaders() const;

 private:
  std::vector<std::vector<Rank>> members_;  // by group; both ascending
  std::size_t own_ = 0;
  Rank position_ = 0;  // mine in my group
  std::uint32_t pieces_ = 1;
};

// The view of a group that `rank` belongs to, on these chunks. Refers to `ranks`, which ascend.
View view_of(std::span<const Rank> ranks, Rank rank, Span chunks);

// How the groups lie, as far as the order of operands goes; each includes the ones before it.
enum class Grouping : std::uint8_t {
  scattered,  // a group's ranks are not all neighbours
  runs,       // groups are runs of consecutive ranks: order of rank can be kept
  subtrees,   // groups are whole subtrees of one height in the tree that is fixed by rank alone
};
Grouping grouping_of(const Level& level);

// The size of a level: ranks, groups, and the ranks of the largest and the smallest group.
struct GroupSizes {
  Rank ranks = 0;
  Rank groups = 0;
  Rank largest = 0;
  Rank smallest = 0;
};
GroupSizes sizes_of(const Level& level);

// Of each level, innermost first, counted in groups of the level before.
std::vector<GroupSizes> sizes_of(Levels levels);

}  // namespace gpuar
