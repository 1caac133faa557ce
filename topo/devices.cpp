#include "topo/devices.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "topo/hwloc_topology.h"

namespace gpuar {
namespace {

namespace fs = std::filesystem;

constexpr unsigned nvidia = 0x10de;
constexpr unsigned display_class = 0x03;  // the base class of PCI display controllers

// The first line of a file of sysfs; empty if it cannot be read.
std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::uint64_t address_of(hwloc_obj_t pci) {
  const auto& attributes = pci->attr->pcidev;
  return std::uint64_t{attributes.domain} << 16U | std::uint64_t{attributes.bus} << 8U |
         std::uint64_t{attributes.dev} << 3U | attributes.func;
}

// The device on the PCI bus to which this object of the operating system belongs; null if none.
hwloc_obj_t pci_of(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object;
}

bool is_gpu(hwloc_obj_t pci) {
  const auto& attributes = pci->attr->pcidev;
  return attributes.vendor_id == nvidia && attributes.class_id >> 8U == display_class;
}

std::int32_t only_index(hwloc_topology_t topology, hwloc_obj_t object, hwloc_obj_type_t type) {
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology, object);
  hwloc_obj_t found = nullptr;
  while (place != nullptr &&
         (found = hwloc_get_next_obj_by_type(topology, type, found)) != nullptr) {
    if (hwloc_bitmap_isincluded(place->cpuset, found->cpuset) != 0) {
      return static_cast<std::int32_t>(found->logical_index);
    }
  }
  return -1;
}

Nearness nearness_at(hwloc_obj_t common) {
  if (common->type == HWLOC_OBJ_PCI_DEVICE) return Nearness::same_switch;
  if (common->type == HWLOC_OBJ_BRIDGE) {
    return common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ? Nearness::same_switch
                                                                      : Nearness::same_root;
  }
  if (hwloc_bitmap_weight(common->nodeset) == 1) return Nearness::same_numa;
  for (; common != nullptr; common = common->parent) {
    if (common->type == HWLOC_OBJ_PACKAGE) return Nearness::same_package;
  }
  return Nearness::same_host;
}

Proximity proximity(hwloc_obj_t a, hwloc_obj_t b) {
  std::vector<hwloc_obj_t> above;  // a and its ancestors
  for (; a != nullptr; a = a->parent) above.push_back(a);
  for (std::int32_t hops = 0; b != nullptr; b = b->parent, ++hops) {
    const auto met = std::find(above.begin(), above.end(), b);
    if (met == above.end()) continue;
    return {nearness_at(b), hops + static_cast<std::int32_t>(met - above.begin())};
  }
  return {};
}

// "200 Gb/sec (4X HDR)" gives 200000.
std::int64_t mbit_of_rate(const std::string& rate) {
  return static_cast<std::int64_t>(std::strtod(rate.c_str(), nullptr) * 1000);
}

// Whether this process may open the device behind an InfiniBand name. In a container it may be
// listed and not be there.
bool can_open(const fs::path& device, const SystemRoots& roots) {
  for (const fs::path& verbs : entries(device / "device" / "infiniband_verbs")) {
    const fs::path file = fs::path(roots.dev) / "infiniband" / verbs.filename();
    if (access(file.c_str(), R_OK | W_OK) == 0) return true;
  }
  return false;
}

// The ports of an InfiniBand device of this system.
std::vector<Nic> ports_of_system(const std::string& name, const SystemRoots& roots) {
  std::vector<Nic> ports;
  const fs::path device = fs::path(roots.sys) / "class" / "infiniband" / name;
  const bool open = can_open(device, roots);
  for (const fs::path& port : entries(device / "ports")) {
    Nic nic;
    nic.name = name + ":" + port.filename().string();
    nic.kind = line_of(port / "link_layer") == "Ethernet" ? NicKind::roce : NicKind::infiniband;
    nic.usable = open && line_of(port / "state").starts_with("4");  // "4: ACTIVE"
    nic.mbit = mbit_of_rate(line_of(port / "rate"));
    ports.push_back(std::move(nic));
  }
  return ports;
}

// The same from what hwloc noted where the topology was made: PortNState and PortNLID.
std::vector<Nic> ports_of_file(hwloc_obj_t device) {
  std::vector<Nic> ports;
  constexpr int most_ports = 8;
  for (int port = 1; port <= most_ports; ++port) {
    const std::string key = "Port" + std::to_string(port);
    const char* state = hwloc_obj_get_info_by_name(device, (key + "State").c_str());
    const char* lid = hwloc_obj_get_info_by_name(device, (key + "LID").c_str());
    if (state == nullptr) continue;
    const bool routed = lid == nullptr || std::strtol(lid, nullptr, 0) != 0;  // Ethernet has no LID
    ports.push_back({std::string(device->name) + ":" + std::to_string(port),
                     routed ? NicKind::infiniband : NicKind::roce,
                     std::string_view(state) == "4",
                     0,
                     {}});
  }
  return ports;
}

// Interfaces with an IPv4 address, as UCX looks for them.
std::vector<std::string> usable_interfaces() {
  std::vector<std::string> names;
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return names;
  const std::unique_ptr<ifaddrs, decltype([](ifaddrs* list) { freeifaddrs(list); })> list(raw);
  constexpr unsigned wanted = IFF_UP | IFF_RUNNING;
  for (const ifaddrs* at = raw; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    if ((at->ifa_flags & wanted) == wanted) names.emplace_back(at->ifa_name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

class Finder {
 public:
  Finder(hwloc_topology_t topology, const SystemRoots& roots)
      : topology_(topology), roots_(roots), ours_(hwloc_topology_is_thissystem(topology) != 0) {}

  Devices find() {
    find_gpus();
    hwloc_obj_t device = nullptr;
    while ((device = hwloc_get_next_osdev(topology_, device)) != nullptr) take(device);
    std::stable_sort(nics_.begin(), nics_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [address, nic] : nics_) found_.nics.push_back(std::move(nic));
    found_.interfaces = usable_interfaces();
    return std::move(found_);
  }

 private:
  void find_gpus() {
    hwloc_obj_t pci = nullptr;
    while ((pci = hwloc_get_next_pcidev(topology_, pci)) != nullptr) {
      if (is_gpu(pci)) gpus_.push_back(pci);
    }
    std::sort(gpus_.begin(), gpus_.end(),
              [](hwloc_obj_t a, hwloc_obj_t b) { return address_of(a) < address_of(b); });
    for (const hwloc_obj_t gpu : gpus_) {
      found_.gpus.push_back({address_of(gpu), only_index(topology_, gpu, HWLOC_OBJ_PACKAGE),
                             only_index(topology_, gpu, HWLOC_OBJ_NUMANODE)});
    }
  }

  void take(hwloc_obj_t device) {
    const hwloc_obj_t pci = pci_of(device);
    if (pci == nullptr || device->name == nullptr) return;
    if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) {
      for (Nic& port : ours_ ? ports_of_system(device->name, roots_) : ports_of_file(device)) {
        add(pci, std::move(port));
      }
    } else if (device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) {
      add(pci, interface(device->name));
    }
  }

  Nic interface(const std::string& name) const {
    Nic nic{name, NicKind::ethernet, !ours_, 0, {}};
    if (!ours_) return nic;
    const fs::path folder = fs::path(roots_.sys) / "class" / "net" / name;
    nic.usable = line_of(folder / "operstate") == "up";
    const long speed = std::strtol(line_of(folder / "speed").c_str(), nullptr, 10);
    nic.mbit = std::max(speed, 0L);  // -1 while the link is down
    return nic;
  }

  void add(hwloc_obj_t pci, Nic nic) {
    for (const hwloc_obj_t gpu : gpus_) nic.to_gpu.push_back(proximity(gpu, pci));
    nics_.emplace_back(address_of(pci), std::move(nic));
  }

  hwloc_topology_t topology_;
  const SystemRoots& roots_;
  bool ours_;  // what hwloc shows is the machine that we run on
  Devices found_;
  std::vector<hwloc_obj_t> gpus_;
  std::vector<std::pair<std::uint64_t, Nic>> nics_;  // by PCI address
};

}  // namespace

std::uint64_t pci_address(std::string_view text) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  char rest = '\0';
  const int read = std::sscanf(std::string(text).c_str(), "%8x:%2x:%2x.%1x%c", &domain, &bus,
                               &device, &function, &rest);
  constexpr int fields = 4;
  if (read != fields || device > 31 || function > 7) return 0;
  return std::uint64_t{domain} << 16U | bus << 8U | device << 3U | function;
}

std::string pci_text(std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof text, "%04llx:%02x:%02x.%x",
                static_cast<unsigned long long>(address >> 16U),
                static_cast<unsigned>(address >> 8U & 0xffU),
                static_cast<unsigned>(address >> 3U & 0x1fU), static_cast<unsigned>(address & 7U));
  return text;
}

bool has_gpudirect_module(const SystemRoots& roots) {
  std::error_code none;
  const fs::path modules = fs::path(roots.sys) / "module";
  return fs::exists(modules / "nvidia_peermem", none) || fs::exists(modules / "nv_peer_mem", none);
}

Devices discover_devices(const SystemRoots& roots) {
  const Topology topology = load_topology(TopologyScope::devices);
  if (!topology) return {};
  return Finder(topology.get(), roots).find();
}

}  // namespace gpuar
