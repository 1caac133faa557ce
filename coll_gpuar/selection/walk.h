// The cost model at work: the schedules that run, with time. Every message and every reduction of
// every rank takes its turn at what it needs:
//
//   sender's way out ─▶ port of its node ─▶ latency ─▶ port of the node ─▶ receiver's way in
//                       └──────── between nodes alone ────────┘
//
// A message begins at the next place as soon as it has begun at the one before, and ends there no
// earlier. Within a node the receiver's core copies, and reduces as well, unless data moves by
// itself; what goes to another package of the node passes the way out of its own, which all ranks
// of that share. Who comes first is served first.
#pragma once

#include <cstdint>

#include "coll_gpuar/selection/programs.h"

namespace gpuar {

// What the closed formulas do not tell apart.
struct Fabric {
  Machine machine;           // its ports are shared out among the ranks of a node in order
  std::uint64_t launch = 0;  // ps, more for each reduction: where a device makes it
};

// Picoseconds until the last rank is done with a call in the segments of `choice`. Of many segments
// only the first are walked: the others take as long as the last of these.
std::uint64_t walk(const Programs& programs, const Choice& choice, const CallShape& shape,
                   const Fabric& fabric);

// Bytes that are sent in a call.
struct Traffic {
  std::uint64_t of_rank = 0;  // by the rank that sends most
  std::uint64_t of_node = 0;  // to other nodes, by the node that sends most
};
Traffic traffic(const Programs& programs, const CallShape& shape);

}  // namespace gpuar
