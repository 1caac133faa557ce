#include "coll_gpuar/report/nics.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace gpuar {
namespace {

namespace fs = std::filesystem;

// The numbers of /sys/class/net/*/statistics, but always of this process's network namespace: /sys
// shows the ports of the one that it was mounted in.
void read_interfaces(NicCounters& out) {
  constexpr std::array<std::string_view, 16> columns{
      "rx_bytes", "", "rx_errors", "rx_dropped", "", "", "", "",
      "tx_bytes", "", "tx_errors", "tx_dropped", "", "", "", ""};
  std::ifstream file("/proc/self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // the two lines of headings
    const std::string name =
        line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' '));
    if (name == "lo") continue;
    std::istringstream numbers(line.substr(colon + 1));
    for (const std::string_view column : columns) {
      std::uint64_t value = 0;
      numbers >> value;
      if (!column.empty()) out[name][std::string(column)] = value;
    }
  }
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// InfiniBand and RoCE ports count data in words of four bytes.
void read_infiniband(NicCounters& out) {
  struct Counter {
    const char* file;
    const char* name;
    std::uint64_t unit;
  };
  constexpr std::array<Counter, 6> counters{{
      {"port_rcv_data", "rx_bytes", 4},
      {"port_xmit_data", "tx_bytes", 4},
      {"port_rcv_errors", "rx_errors", 1},
      {"symbol_error", "tx_errors", 1},
      {"port_xmit_discards", "tx_dropped", 1},
      {"port_xmit_wait", "tx_wait_ticks", 1},
  }};
  std::error_code none;
  for (const auto& device : fs::directory_iterator("/sys/class/infiniband", none)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", none)) {
      const std::string name =
          device.path().filename().string() + ":" + port.path().filename().string();
      for (const Counter& counter : counters) {
        if (const auto value = number_in(port.path() / "counters" / counter.file))
          out[name][counter.name] = *value * counter.unit;
      }
    }
  }
}

}  // namespace

NicCounters read_nic_counters() {
  NicCounters counters;
  read_interfaces(counters);
  read_infiniband(counters);
  return counters;
}

NicCounters since(const NicCounters& before, const NicCounters& now) {
  NicCounters counted;
  for (const auto& [port, counters] : now) {
    const auto earlier = before.find(port);
    bool any = false;
    std::map<std::string, std::uint64_t> difference;
    for (const auto& [name, value] : counters) {
      std::uint64_t start = 0;
      if (earlier != before.end() && earlier->second.contains(name)) {
        start = earlier->second.at(name);
      }
      difference[name] = value - start;
      any = any || value != start;
    }
    if (any) counted[port] = difference;
  }
  return counted;
}

}  // namespace gpuar
