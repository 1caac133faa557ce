// Nodes of many shapes, and the calls that selection sees on them.
#pragma once

#include <cstdint>

#include "coll_gpuar/selection/select.h"

namespace gpuar::test {

// Filled one after the other.
inline Level equal_nodes(Rank nodes, Rank ranks) {
  Level level;
  for (Rank node = 0; node < nodes; ++node) {
    level.insert(level.end(), static_cast<std::size_t>(ranks), node);
  }
  return level;
}

inline LayoutSummary summary_of(const Level& nodes) {
  const GroupSizes sizes = sizes_of(nodes);
  LayoutSummary layout;
  layout.hosts = static_cast<std::uint32_t>(sizes.groups);
  layout.max_ranks_per_host = static_cast<std::uint32_t>(sizes.largest);
  layout.min_ranks_per_host = static_cast<std::uint32_t>(sizes.smallest);
  layout.hosts_are = grouping_of(nodes);
  return layout;
}

inline CallShape shape_of(const Level& nodes, std::uint64_t bytes) {
  CallShape shape;
  shape.bytes = bytes;
  shape.element_bytes = 8;
  shape.ranks = static_cast<Rank>(nodes.size());
  shape.layout = summary_of(nodes);
  return shape;
}

}  // namespace gpuar::test
