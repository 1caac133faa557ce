#include "coll_gpuar/selection/programs.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {
namespace {

std::size_t index(Rank rank) {
  return static_cast<std::size_t>(rank);
}

// Equal nodes, filled one after the other.
bool is_regular(const Level& nodes, const GroupSizes& sizes) {
  if (sizes.smallest != sizes.largest) return false;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    if (nodes[rank] != static_cast<Rank>(rank) / sizes.largest) return false;
  }
  return true;
}

// The step of `receiver` that takes its k-th message from `peer`.
std::uint32_t receive_step(const Schedule& receiver, Rank peer, std::uint32_t k) {
  const auto from =
      std::lower_bound(receiver.receives.begin(), receiver.receives.end(), peer,
                       [](const PeerReceives& entry, Rank rank) { return entry.peer < rank; });
  if (from == receiver.receives.end() || from->peer != peer || k >= from->count) {
    throw std::logic_error("walk: rank " + std::to_string(receiver.rank) + " expects no message " +
                           std::to_string(k) + " from rank " + std::to_string(peer));
  }
  return receiver.recv_steps[from->first + k];
}

Programs with_symmetry(const Choice& choice, const Level& nodes, const Symmetry& symmetry) {
  Programs programs;
  programs.ranks = static_cast<Rank>(nodes.size());
  std::unordered_map<Rank, std::uint32_t> program_of;
  std::vector<std::uint32_t> place_of(nodes.size());
  programs.ranks_of_node.resize(index(sizes_of(nodes).groups));
  for (Rank rank = 0; rank < programs.ranks; ++rank) {
    const auto node = static_cast<std::uint32_t>(nodes[index(rank)]);
    place_of[index(rank)] = programs.ranks_of_node.at(node)++;
    if (symmetry.representative(rank) != rank) continue;
    program_of.emplace(rank, static_cast<std::uint32_t>(programs.all.size()));
    programs.all.push_back({schedule_of(choice, rank, nodes), {}, {}, node, place_of[index(rank)]});
  }
  programs.nodes = static_cast<std::uint32_t>(programs.ranks_of_node.size());
  for (Programs::Program& program : programs.all) {
    const Rank rank = program.schedule.rank;
    program.receivers.resize(program.schedule.steps.size());
    program.leaves_node.resize(program.schedule.steps.size());
    for (std::size_t i = 0; i < program.schedule.steps.size(); ++i) {
      const Step& step = program.schedule.steps[i];
      if (step.verb != Verb::send) continue;
      const std::uint32_t at = program_of.at(symmetry.representative(step.peer));
      program.receivers[i] = {at, receive_step(programs.all[at].schedule,
                                               symmetry.moved(rank, step.peer), step.message)};
      program.leaves_node[i] = nodes[index(step.peer)] != nodes[index(rank)];
    }
  }
  return programs;
}

Turn turn_of(const Algorithm& algorithm, Rank size) {
  const bool whole = std::has_single_bit(static_cast<std::uint32_t>(size));
  return algorithm.turn == Turn::exclusive_or && !whole ? Turn::none : algorithm.turn;
}

Rank turned(Turn turn, Rank at, Rank mover, Rank size) {
  switch (turn) {
    case Turn::shift:
      return ring_shift(at, -mover, size);
    case Turn::exclusive_or:
      return at ^ mover;
    case Turn::none:
      break;
  }
  return at;
}

Symmetry symmetry_of(const Choice& choice, const Level& nodes) {
  const GroupSizes sizes = sizes_of(nodes);
  return is_regular(nodes, sizes) ? Symmetry(sizes.groups, sizes.largest, choice)
                                  : Symmetry(static_cast<Rank>(nodes.size()));
}

}  // namespace

Symmetry::Symmetry(Rank nodes, Rank per_node, const Choice& choice)
    : nodes_(nodes), per_node_(per_node) {
  const Algorithm& algorithm = algorithms()[choice.algorithm];
  if (choice.composition != flat) {
    among_nodes_ = turn_of(algorithm, nodes);
    within_ = compositions()[choice.composition].turn;
    return;
  }
  among_nodes_ = turn_of(algorithm, nodes * per_node);
  // A shift by less than a node would tear nodes apart.
  if (among_nodes_ == Turn::exclusive_or || nodes == 1) within_ = among_nodes_;
}

Rank Symmetry::moved(Rank rank, Rank mover) const {
  return turned(among_nodes_, rank / per_node_, mover / per_node_, nodes_) * per_node_ +
         turned(within_, rank % per_node_, mover % per_node_, per_node_);
}

Schedule schedule_of(const Choice& choice, Rank rank, const Level& nodes) {
  const auto size = static_cast<Rank>(nodes.size());
  BuildOptions options;
  options.radix = choice.radix;
  options.builder.min_slots = slots_for(size);
  const Levels levels(&nodes, choice.composition == flat ? 0 : 1);
  return build(compositions()[choice.composition], algorithms()[choice.algorithm], rank, size,
               levels, options);
}

Programs programs_of(const Choice& choice, const Level& nodes) {
  return with_symmetry(choice, nodes, symmetry_of(choice, nodes));
}

std::size_t different_programs(const Choice& choice, const Level& nodes) {
  const Symmetry symmetry = symmetry_of(choice, nodes);
  std::size_t count = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(nodes.size()); ++rank) {
    count += symmetry.representative(rank) == rank ? 1 : 0;
  }
  return count;
}

Programs all_programs_of(const Choice& choice, const Level& nodes) {
  return with_symmetry(choice, nodes, Symmetry(static_cast<Rank>(nodes.size())));
}

}  // namespace gpuar
