// Where the ranks of a communicator sit, as far as schedules look at it.
#pragma once

#include <tuple>
#include <vector>

#include "coll_gpuar/algorithms/groups.h"
#include "coll_gpuar/selection/select.h"
#include "topo/layout.h"

namespace gpuar {

struct Placement {
  explicit Placement(const Layout& layout);

  std::vector<Level> levels;  // the parts of nodes, if they have some, and the nodes
  std::vector<Rank> order;    // all ranks, such that neighbours are near; empty: by number
  friend bool operator<(const Placement& a, const Placement& b) {
    return std::tie(a.levels, a.order) < std::tie(b.levels, b.order);
  }
};

// What a choice sees of it.
LayoutSummary summary_of(const Placement& placement, const Layout& layout);

}  // namespace gpuar
