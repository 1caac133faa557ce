// The machine that gpuar_sim imagines: equal nodes, described in a JSON file.
#pragma once

#include <cstdint>
#include <string>

#include "coll_gpuar/selection/walk.h"

namespace bench {

struct ImaginedMachine {
  std::string name;
  gpuar::Rank ranks_per_node = 1;
  gpuar::Rank packages_per_node = 1;  // divides the ranks
  gpuar::Fabric fabric;
};

// "host" or "device", the constants that gpuar has built in for communicators of either kind of
// memory, or a file that says what differs from them. Throws std::runtime_error with the file, and
// the line or the item, that is wrong.
ImaginedMachine imagined_machine(const std::string& name_or_file);

}  // namespace bench
