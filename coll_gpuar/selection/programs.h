// The schedules of all ranks of a communicator, of which those that differ by a symmetry are held
// once: what makes a walk over tens of thousands of ranks cheap.
#pragma once

#include <cstdint>
#include <vector>

#include "coll_gpuar/algorithms/composition.h"
#include "coll_gpuar/schedule/schedule.h"
#include "coll_gpuar/selection/select.h"

namespace gpuar {

// Movements of all ranks that map schedules onto schedules: of nodes among each other, of the parts
// within each node, and of the ranks within each part. Every rank can be moved onto its
// representative.
class Symmetry {
 public:
  // Of the ranks of these levels, if all groups of a level are equal and filled one after the
  // other; else no movement but staying.
  Symmetry(const Choice& choice, Levels levels);

  // No movement but staying.
  explicit Symmetry(Rank ranks) : digits_{{ranks, Turn::none}} {}

  // Where `rank` goes by the movement that takes `mover` to its representative.
  [[nodiscard]] Rank moved(Rank rank, Rank mover) const;
  [[nodiscard]] Rank representative(Rank rank) const { return moved(rank, rank); }

 private:
  // A rank is a number of these digits: its place in its innermost group first, that group's in the
  // next one, and so on.
  struct Digit {
    Rank values = 1;
    Turn turn = Turn::none;
  };
  void turn_flat(Turn turn);
  std::vector<Digit> digits_;
};

// The two steps of a message.
struct Receiver {
  std::uint32_t program = 0;
  std::uint32_t step = 0;
};

// How far a message goes.
enum class Reach : std::uint8_t { near, other_part, other_node };

struct Programs {
  // A representative, and where it sits.
  struct Program {
    Schedule schedule;
    std::vector<Receiver> receivers;  // by step, for sends
    std::vector<Reach> reach;         // by step, for sends
    std::uint32_t node = 0;
    std::uint32_t place = 0;  // among the ranks of the node
    std::uint32_t part = 0;
  };
  std::vector<Program> all;
  Rank ranks = 1;
  std::uint32_t nodes = 1;
  std::vector<std::uint32_t> ranks_of_node;
  std::vector<std::uint32_t> ranks_of_part;  // none where nodes are not divided
};

// As the component builds them; `levels` are the parts of nodes, if they have some, and the nodes.
// Throws what build() throws.
Schedule schedule_of(const Choice& choice, Rank rank, Levels levels);

// By symmetry where groups are equal and filled one after the other, else of every rank.
Programs programs_of(const Choice& choice, Levels levels);

// How many that would be.
std::size_t different_programs(const Choice& choice, Levels levels);

// Of every rank, whatever the symmetry.
Programs all_programs_of(const Choice& choice, Levels levels);

}  // namespace gpuar
