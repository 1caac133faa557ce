// Which process of a host: enough to find out later whether it is still there.
#pragma once

#include <cstdint>

namespace gpuar {

struct ProcessId {
  std::int32_t pid = 0;       // 0: unknown
  std::uint64_t started = 0;  // ticks from the boot on: process ids are used again
  std::uint64_t space = 0;    // the namespace in which the id counts
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

ProcessId this_process();

// Whether a process of this host has ended; its parent need not have noticed. False as well if that
// cannot be found out: the process counts in another namespace, or there is no /proc. About 10 µs.
bool has_ended(const ProcessId& process);

}  // namespace gpuar
