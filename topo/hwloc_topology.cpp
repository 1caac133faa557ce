#include "topo/hwloc_topology.h"

#include <array>

namespace gpuar {
namespace {

// Nothing but what is asked for, because every process of a job pays for it at start-up.
void keep(hwloc_topology_t topology, TopologyScope scope) {
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (scope == TopologyScope::processors) {
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_type_filter(topology, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
    return;
  }
  // Where a part of a package has its own PCI root, hwloc makes a group for it.
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
}

// hwloc's x86 discovery moves the calling thread over every core in turn; the operating system's
// own tables say the same without that. The others initialise a GPU's driver, which is for the
// program to do, and takes seconds.
void leave_out(hwloc_topology_t topology) {
  constexpr std::array<const char*, 7> components{"x86", "cuda", "nvml",     "opencl",
                                                  "gl",  "rsmi", "levelzero"};
  for (const char* name : components) {
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, name);
  }
}

}  // namespace

Topology load_topology(TopologyScope scope) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  keep(raw, scope);
  leave_out(raw);
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

}  // namespace gpuar
