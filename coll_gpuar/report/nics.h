// What this process's network ports have counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace gpuar {

// By port and counter: "eth0" → "rx_bytes". Ports that the kernel does not show are left out.
using NicCounters = std::map<std::string, std::map<std::string, std::uint64_t>>;

NicCounters read_nic_counters();

// What was counted in between; ports that carried nothing and lost nothing are left out.
NicCounters since(const NicCounters& before, const NicCounters& now);

}  // namespace gpuar
