#include "topo/place.h"

#include <hwloc.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <type_traits>

namespace gpuar {
namespace {

using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>,
                                 decltype([](hwloc_topology_t t) { hwloc_topology_destroy(t); })>;
using CpuSet = std::unique_ptr<std::remove_pointer_t<hwloc_cpuset_t>,
                               decltype([](hwloc_cpuset_t s) { hwloc_bitmap_free(s); })>;

std::string host_name() {
  std::array<char, 256> name{};
  // The last byte stays zero: gethostname need not terminate a name that it had to cut.
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

// Packages, cores and what hwloc always gives (NUMA nodes, hardware threads); nothing else, because
// every process of a job pays for it at start-up.
Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  // hwloc's x86 discovery moves the calling thread over every core in turn. The operating system's
  // own tables say the same without that.
  hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

// The hardware threads that the calling thread may run on.
CpuSet binding_of(hwloc_topology_t topology) {
  CpuSet binding(hwloc_bitmap_alloc());
  if (!binding) return nullptr;
  const hwloc_const_cpuset_t host = hwloc_topology_get_topology_cpuset(topology);
  if (hwloc_get_cpubind(topology, binding.get(), HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(binding.get(), host);
  }
  hwloc_bitmap_and(binding.get(), binding.get(), host);
  return hwloc_bitmap_iszero(binding.get()) ? nullptr : std::move(binding);
}

// The one object of this type that holds the whole binding; -1 if it spans several, or none is
// known.
std::int32_t only_object(hwloc_topology_t topology, hwloc_const_cpuset_t binding,
                         hwloc_obj_type_t type) {
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr) {
    if (hwloc_bitmap_isincluded(binding, object->cpuset) != 0) {
      return static_cast<std::int32_t>(object->logical_index);
    }
  }
  return -1;
}

std::int32_t first_core(hwloc_topology_t topology, hwloc_const_cpuset_t binding) {
  hwloc_obj_t core = nullptr;
  while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
    if (hwloc_bitmap_intersects(binding, core->cpuset) != 0) {
      return static_cast<std::int32_t>(core->logical_index);
    }
  }
  return -1;
}

}  // namespace

std::uint64_t host_identity(const std::string& name, const std::string& boot_id) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
  const auto mix = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const char c : name) mix(static_cast<unsigned char>(c));
  mix(0);  // keeps ("ab", "c") apart from ("a", "bc")
  for (const char c : boot_id) mix(static_cast<unsigned char>(c));
  return hash;
}

ProcessPlace discover_place() {
  ProcessPlace place;
  place.host = host_name();
  place.host_id = host_identity(place.host, boot_id());

  const Topology topology = load_topology();
  if (!topology) return place;
  place.host_threads = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_PU);
  const CpuSet binding = binding_of(topology.get());
  if (!binding) return place;
  place.threads = hwloc_bitmap_weight(binding.get());
  place.package = only_object(topology.get(), binding.get(), HWLOC_OBJ_PACKAGE);
  place.numa = only_object(topology.get(), binding.get(), HWLOC_OBJ_NUMANODE);
  if (place.threads < place.host_threads) place.core = first_core(topology.get(), binding.get());
  return place;
}

}  // namespace gpuar
