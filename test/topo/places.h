// Places of processes, made up for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topo/layout.h"

namespace gpuar::test {

using Nodes = std::vector<std::int32_t>;

// Ranks on these hosts; nothing bound, and room for everybody.
inline std::vector<ProcessPlace> on_hosts(const std::vector<std::uint64_t>& hosts) {
  std::vector<ProcessPlace> places;
  places.reserve(hosts.size());
  for (const std::uint64_t host : hosts) {
    places.push_back({"host" + std::to_string(host), host, -1, -1, -1, 10000, 10000});
  }
  return places;
}

inline Layout layout_of(const std::vector<ProcessPlace>& places, const Pretended& pretend = {}) {
  std::vector<const ProcessPlace*> members;
  members.reserve(places.size());
  for (const ProcessPlace& place : places) members.push_back(&place);
  return make_layout(members, pretend);
}

// A rank bound to one core of a host with 2 packages of 2 NUMA domains of 4 cores, and a GPU per
// NUMA domain, which it uses.
inline ProcessPlace bound_to(std::uint64_t host, std::int32_t core) {
  ProcessPlace place{"host" + std::to_string(host), host, core / 8, core / 4, core, 1, 16};
  place.l3 = core / 2;
  place.gpu = std::uint64_t{0x1000} + static_cast<std::uint64_t>(core / 4);
  place.gpu_index = core / 4;
  return place;
}

}  // namespace gpuar::test
