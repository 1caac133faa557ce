// Hosts that are really one machine: containers, or namespaces of the network.
#pragma once

#include <cstdint>

#include "coll_gpuar/selection/select.h"

namespace gpuar {

// Messages from one host to another, of all ranks together, for one segment. Taken as if the ranks
// filled the hosts evenly, one after the other.
std::uint64_t crossings(const Choice& choice, const CallShape& shape);

// Where the ranks of all hosts take turns on the cores of one machine, the time that the cores take
// for what crosses between hosts, in picoseconds; else 0. Sending and receiving is work of the
// kernel there, and all ranks wait for each other's. A vector longer than `crossing_bytes` pays for
// the fewest messages that do, whatever the choice.
std::uint64_t turns(const Choice& choice, const CallShape& shape, const Machine& machine);

}  // namespace gpuar
