// hwloc's view of the machine, loaded and released. For this room only.
#pragma once

#include <hwloc.h>

#include <cstdint>
#include <memory>
#include <type_traits>

namespace gpuar {

struct TopologyRelease {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, TopologyRelease>;

enum class TopologyScope : std::uint8_t {
  processors,  // packages, NUMA nodes, L3 caches, cores, hardware threads
  devices,     // packages, NUMA nodes, and the PCI tree with what the operating system calls its
               // devices
};

// Null if hwloc cannot load it.
Topology load_topology(TopologyScope scope);

}  // namespace gpuar
