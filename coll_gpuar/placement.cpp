#include "coll_gpuar/placement.h"

#include <algorithm>

namespace gpuar {

Placement::Placement(const Layout& layout) {
  if (const Partition* const parts = parts_of(layout)) levels.push_back(parts->of);
  levels.push_back(layout.node_of);
  if (!std::is_sorted(layout.ring.begin(), layout.ring.end())) order = layout.ring;
}

LayoutSummary summary_of(const Placement& placement, const Layout& layout) {
  LayoutSummary summary = summary_of(placement.levels);
  summary.oversubscribed = layout.oversubscribed;
  summary.cache_per_rank = layout.cache_per_rank;
  summary.shared_threads = static_cast<std::uint32_t>(layout.shared_threads);
  return summary;
}

}  // namespace gpuar
