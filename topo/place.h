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
  friend bool operator==(const ProcessPlace&, const ProcessPlace&) = default;
};

// Finds the place of the calling process, without communication. About 2 ms, nearly all of it
// inside hwloc, so call it once per process. HWLOC_XMLFILE (with HWLOC_THISSYSTEM=1 to keep this
// process's binding) replaces the machine, as in every hwloc program. Never fails: what cannot be
// found out stays -1.
ProcessPlace discover_place();

// The identity of a host: its name and the kernel's boot id together. Two machines of one name have
// different boot ids; containers and network namespaces of one machine share the boot id and have
// different names. The mix is 64 bits wide: two hosts taken for one would cost speed, never a
// result, because the layout is computed from the same numbers on every rank.
std::uint64_t host_identity(const std::string& name, const std::string& boot_id);

}  // namespace gpuar
