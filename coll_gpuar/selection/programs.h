// The schedules of all ranks of a communicator, of which those that differ by a symmetry are held
// once: what makes a walk over tens of thousands of ranks cheap.
#pragma once

#include <cstdint>
#include <vector>

#include "coll_gpuar/algorithms/composition.h"
#include "coll_gpuar/schedule/schedule.h"
#include "coll_gpuar/selection/select.h"

namespace gpuar {

// Movements of all ranks that map schedules onto schedules: of nodes among each other, and of the
// ranks within each node. Every rank can be moved onto its representative.
class Symmetry {
 public:
  // Of nodes of so many ranks each, one after the other.
  Symmetry(Rank nodes, Rank per_node, const Choice& choice);

  // No movement but staying.
  explicit Symmetry(Rank ranks) : nodes_(ranks) {}

  // Where `rank` goes by the movement that takes `mover` to its representative.
  [[nodiscard]] Rank moved(Rank rank, Rank mover) const;
  [[nodiscard]] Rank representative(Rank rank) const { return moved(rank, rank); }

 private:
  Rank nodes_ = 1;
  Rank per_node_ = 1;
  Turn among_nodes_ = Turn::none;
  Turn within_ = Turn::none;
};

// The two steps of a message.
struct Receiver {
  std::uint32_t program = 0;
  std::uint32_t step = 0;
};

struct Programs {
  // A representative, and where it sits.
  struct Program {
    Schedule schedule;
    std::vector<Receiver> receivers;  // by step, for sends
    std::vector<bool> leaves_node;    // by step, for sends
    std::uint32_t node = 0;
    std::uint32_t place = 0;  // among the ranks of the node
  };
  std::vector<Program> all;
  Rank ranks = 1;
  std::uint32_t nodes = 1;
  std::vector<std::uint32_t> ranks_of_node;
};

// As the component builds them. Throws what build() throws.
Schedule schedule_of(const Choice& choice, Rank rank, const Level& nodes);

// By symmetry where the nodes are equal and filled one after the other, else of every rank.
Programs programs_of(const Choice& choice, const Level& nodes);

// How many that would be.
std::size_t different_programs(const Choice& choice, const Level& nodes);

// Of every rank, whatever the symmetry.
Programs all_programs_of(const Choice& choice, const Level& nodes);

}  // namespace gpuar
