// Nodes of many shapes, and the calls that selection sees on them.
#pragma once

#include <cstdint>
#include <vector>

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

// Each divided into so many equal parts.
inline std::vector<Level> divided_nodes(Rank nodes, Rank parts, Rank ranks) {
  return {equal_nodes(nodes * parts, ranks), equal_nodes(nodes, parts * ranks)};
}

inline LayoutSummary layout_of(const Level& nodes) {
  return summary_of({&nodes, 1});
}

// Equal hosts that are one machine of so many hardware threads.
inline LayoutSummary containers(Rank hosts, Rank ranks, std::uint32_t threads) {
  LayoutSummary layout = layout_of(equal_nodes(hosts, ranks));
  layout.shared_threads = threads;
  return layout;
}

inline CallShape shape_of(const Level& nodes, std::uint64_t bytes) {
  CallShape shape;
  shape.bytes = bytes;
  shape.element_bytes = 8;
  shape.ranks = static_cast<Rank>(nodes.size());
  shape.layout = layout_of(nodes);
  return shape;
}

}  // namespace gpuar::test
