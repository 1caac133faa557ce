#include "topo/place.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <type_traits>

#include "topo/hwloc_topology.h"

namespace gpuar {
namespace {

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

std::int32_t cache_kib(hwloc_topology_t topology) {
  std::uint64_t bytes = 0;
  hwloc_obj_t cache = nullptr;
  while ((cache = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_L3CACHE, cache)) != nullptr) {
    bytes += cache->attr->cache.size;
  }
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  return bytes == 0 ? -1 : static_cast<std::int32_t>(std::min(bytes >> 10, most));
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

bool machine_is_described() {
  const char* file = std::getenv("HWLOC_XMLFILE");
  return file != nullptr && *file != '\0';
}

std::uint64_t host_identity(const std::string& name, const std::string& boot_id) {
  const auto mixed = [](const std::string& text) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash ^ hash >> 32;
  };
  return mixed(boot_id) << 32 | (mixed(name) & 0xffffffff);
}

ProcessPlace discover_place() {
  ProcessPlace place;
  place.host = host_name();
  place.host_id = host_identity(place.host, boot_id());

  const Topology topology = load_topology(TopologyScope::processors);
  if (!topology) return place;
  place.host_threads = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_PU);
  place.host_cache_kib = cache_kib(topology.get());
  const CpuSet binding = binding_of(topology.get());
  if (!binding) return place;
  place.threads = hwloc_bitmap_weight(binding.get());
  place.package = only_object(topology.get(), binding.get(), HWLOC_OBJ_PACKAGE);
  place.numa = only_object(topology.get(), binding.get(), HWLOC_OBJ_NUMANODE);
  place.l3 = only_object(topology.get(), binding.get(), HWLOC_OBJ_L3CACHE);
  if (place.threads < place.host_threads) place.core = first_core(topology.get(), binding.get());
  return place;
}

}  // namespace gpuar
