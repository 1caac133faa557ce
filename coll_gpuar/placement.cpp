#include "coll_gpuar/placement.h"

#include <algorithm>

namespace gpuar {

Placement::Placement(const Layout& layout) {
  if (const Partition* const parts = parts_of(layout)) levels.push_back(parts->of);
  levels.push_back(layout.node_of);
  if (!std::is_sorted(layout.ring.begin(), layout.ring.end())) order = layout.ring;
}

}  // namespace gpuar
