// Where a process sits: its host, and the part of the host that it may use.
#pragma once

#include <cstdint>
#include <string>

namespace gpuar {

// Indices are hwloc's logical ones; -1 says "unknown, or more than one".
struct ProcessPlace {
  std::string host;           // host name, for people
  std::uint64_t host_id = 0;  // equal on two processes exactly if they share a host, see below
  std::int32_t package = -1;
  std::int32_t numa = -1;
  std::int32_t core = -1;     // the first core of this process's binding; -1 if it is not bound
  std::int32_t threads = -1;  // hardware threads that this process may use
  std::int32_t host_threads = -1;  // hardware threads of the host, as far as this job may use them
  std::int32_t host_cache_kib = -1;  // last-level caches of the host together
  std::int32_t l3 = -1;
  // The GPU that this process is taken to use: its PCI address (see pci_address()), 0 if none is
  // known, and its number among the GPUs of the host, which ties it to the GPUs of that number on
  // other hosts. Not set by discover_place(); see devices.h.
  std::uint64_t gpu = 0;
  std::int32_t gpu_index = -1;
  friend bool operator==(const ProcessPlace&, const ProcessPlace&) = default;
};

// Finds the place of the calling process, without communication. About 2 ms, nearly all of it
// inside hwloc, so call it once per process. HWLOC_XMLFILE (with HWLOC_THISSYSTEM=1 to keep this
// process's binding) replaces the machine, as in every hwloc program. Never fails: what cannot be
// found out stays -1.
ProcessPlace discover_place();

// Whether HWLOC_XMLFILE replaces this machine.
bool machine_is_described();

// The identity of a host: its name and the kernel's boot id together. Two machines of one name have
// different boot ids; containers and network namespaces of one machine share the boot id and have
// different names. Half of the 64 bits tell machines apart, half their names: two hosts taken for
// one would cost speed, never a result, because the layout is computed from the same numbers on
// every rank.
std::uint64_t host_identity(const std::string& name, const std::string& boot_id);

// Equal for hosts that are really one machine.
constexpr std::uint32_t machine_of(std::uint64_t host_id) {
  return static_cast<std::uint32_t>(host_id >> 32);
}

}  // namespace gpuar
