// The GPUs and network ports of this host, and how near they are to each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuar {

// A PCI address such as "0000:1b:00.0" as a number that orders as the text does; 0 if the text is
// none. (0000:00:00.0 is the root of a bus, never a GPU.)
std::uint64_t pci_address(std::string_view text);
std::string pci_text(std::uint64_t address);

// What two devices have in common, nearest first.
enum class Nearness : std::uint8_t {
  same_switch,  // a PCI switch: data passes by the processor
  same_root,    // a PCI root complex
  same_numa,
  same_package,
  same_host,
};

struct Proximity {
  Nearness nearness = Nearness::same_host;
  std::int32_t hops = 0;  // links of the PCI tree between the two
  friend bool operator<(const Proximity& a, const Proximity& b) {
    return std::pair(a.nearness, a.hops) < std::pair(b.nearness, b.hops);
  }
};

enum class NicKind : std::uint8_t { infiniband, roce, ethernet };

struct Nic {
  std::string name;  // as UCX has it: "mlx5_0:1" for a port, "eth0" for an interface
  NicKind kind = NicKind::ethernet;
  bool usable = false;            // the link is up, and this process may open the device
  std::int64_t mbit = 0;          // Mbit/s; 0 if unknown
  std::vector<Proximity> to_gpu;  // by GPU
};

struct GpuDevice {
  std::uint64_t address = 0;  // see pci_address()
  std::int32_t package = -1;  // hwloc's logical index; -1: unknown, or more than one
  std::int32_t numa = -1;
};

struct Devices {
  std::vector<GpuDevice> gpus;  // NVIDIA's, by PCI address: the order that CUDA calls PCI_BUS_ID
  std::vector<Nic> nics;        // physical ones, by PCI address
  // Every network interface that TCP can use now, virtual ones (bonds, say) and lo included.
  std::vector<std::string> interfaces;
};

// Where the operating system tells of devices; others than these for tests.
struct SystemRoots {
  std::string sys = "/sys";
  std::string dev = "/dev";
};

// Asks hwloc for the PCI devices, and the system for the state and speed of links. Up to 30 ms, so
// once per process and only where there is a use for it. HWLOC_XMLFILE replaces the machine; unless
// HWLOC_THISSYSTEM=1 says that it is this one, states come from the file too, and speeds are
// unknown. Never fails: what cannot be found out is missing.
Devices discover_devices(const SystemRoots& roots = {});

// Whether the kernel module that lets network ports reach GPU memory by themselves is loaded.
bool has_gpudirect_module(const SystemRoots& roots = {});

}  // namespace gpuar
