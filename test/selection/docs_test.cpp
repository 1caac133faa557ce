// docs/selection.md shows the cost model's constants as they are.
#include <string>

#include "coll_gpuar/selection/machine.h"
#include "test/algorithms/docs.h"
#include "test/algorithms/source_root.h"
#include "test/catch.h"

namespace gpuar {
namespace {

std::string thousands(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

TEST_CASE("the documented constants of the cost model are those of the code", "[selection]") {
  const std::string page = read_file(std::string(source_root) + "/docs/selection.md");
  const Machine host;
  const Machine devices = device_machine();
  const auto shows = [&](const char* name, std::uint64_t here, std::uint64_t there,
                         const char* unit) {
    const std::string row =
        std::string("| ") + name + " | " + thousands(here) + unit + " | " + thousands(there) + unit;
    INFO(row);
    CHECK(page.find(row + " |") != std::string::npos);
  };
  const auto shows_link = [&](const std::string& name, const Link& here, const Link& there) {
    shows((name + ": latency").c_str(), here.latency, there.latency, " ps");
    shows((name + ": message").c_str(), here.message, there.message, " ps");
    shows((name + ": byte").c_str(), here.byte, there.byte, " ps");
  };
  const Link& memory = host.shared_memory;
  for (const auto& [name, value] :
       {std::pair("fragment", memory.fragment), std::pair("rendezvous", memory.rendezvous),
        std::pair("rendezvous byte", memory.rendezvous_byte)}) {
    const std::string row = std::string("| shared memory: ") + name + " | " + thousands(value);
    INFO(row);
    CHECK(page.find(row) != std::string::npos);
  }
  shows_link("shared memory", host.shared_memory, devices.shared_memory);
  shows_link("network", host.network, devices.network);
  shows("reduced byte", host.reduce_byte, devices.reduce_byte, " ps");
  shows("reduced byte, user-defined", host.custom_byte, devices.custom_byte, " ps");
  shows("byte in the shared cache", host.shared_cache_byte, devices.shared_cache_byte, " ps");
  shows("uncached byte", host.uncached_byte, devices.uncached_byte, " ps");
  shows("oversubscribed", host.oversubscribed, devices.oversubscribed, " ps");
  shows("turn", host.turn, devices.turn, " ps");
  shows("crossing", host.crossing, devices.crossing, " ps");
  shows("crossing byte", host.crossing_byte, devices.crossing_byte, " ps");
  shows("segments in flight", host.depth, devices.depth, "");
}

}  // namespace
}  // namespace gpuar
