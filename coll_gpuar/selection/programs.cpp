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

// Equal groups, filled one after the other.
bool is_regular(const Level& level) {
  const GroupSizes sizes = sizes_of(level);
  if (sizes.smallest != sizes.largest) return false;
  for (std::size_t rank = 0; rank < level.size(); ++rank) {
    if (level[rank] != static_cast<Rank>(rank) / sizes.largest) return false;
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

// Where ranks sit, by the levels.
struct Seats {
  const Level& nodes;
  const Level* parts;  // null: nodes are not divided

  explicit Seats(Levels levels)
      : nodes(levels.back()), parts(levels.size() > 1 ? &levels.front() : nullptr) {}

  [[nodiscard]] Reach reach(Rank from, Rank to) const {
    if (nodes[index(from)] != nodes[index(to)]) return Reach::other_node;
    const bool apart = parts != nullptr && (*parts)[index(from)] != (*parts)[index(to)];
    return apart ? Reach::other_part : Reach::near;
  }
};

Programs with_symmetry(const Choice& choice, Levels levels, const Symmetry& symmetry) {
  const Seats seats(levels);
  Programs programs;
  programs.ranks = static_cast<Rank>(seats.nodes.size());
  std::unordered_map<Rank, std::uint32_t> program_of;
  programs.ranks_of_node.resize(index(sizes_of(seats.nodes).groups));
  if (seats.parts != nullptr) programs.ranks_of_part.resize(index(sizes_of(*seats.parts).groups));
  for (Rank rank = 0; rank < programs.ranks; ++rank) {
    const auto node = static_cast<std::uint32_t>(seats.nodes[index(rank)]);
    const std::uint32_t place = programs.ranks_of_node.at(node)++;
    const std::uint32_t part =
        seats.parts == nullptr ? 0 : static_cast<std::uint32_t>((*seats.parts)[index(rank)]);
    if (seats.parts != nullptr) ++programs.ranks_of_part.at(part);
    if (symmetry.representative(rank) != rank) continue;
    program_of.emplace(rank, static_cast<std::uint32_t>(programs.all.size()));
    programs.all.push_back({schedule_of(choice, rank, levels), {}, {}, node, place, part});
  }
  programs.nodes = static_cast<std::uint32_t>(programs.ranks_of_node.size());
  for (Programs::Program& program : programs.all) {
    const Rank rank = program.schedule.rank;
    program.receivers.resize(program.schedule.steps.size());
    program.reach.resize(program.schedule.steps.size());
    for (std::size_t i = 0; i < program.schedule.steps.size(); ++i) {
      const Step& step = program.schedule.steps[i];
      if (step.verb != Verb::send) continue;
      const std::uint32_t at = program_of.at(symmetry.representative(step.peer));
      program.receivers[i] = {at, receive_step(programs.all[at].schedule,
                                               symmetry.moved(rank, step.peer), step.message)};
      program.reach[i] = seats.reach(rank, step.peer);
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

}  // namespace

Symmetry::Symmetry(const Choice& choice, Levels levels) {
  const Algorithm& algorithm = algorithms()[choice.algorithm];
  const Composition& composition = compositions()[choice.composition];
  const auto size = static_cast<Rank>(levels.back().size());
  if (!std::all_of(levels.begin(), levels.end(), is_regular)) {
    digits_ = {{size, Turn::none}};
    return;
  }
  const std::vector<GroupSizes> sizes = sizes_of(levels);
  for (const GroupSizes& level : sizes) digits_.push_back({level.largest, Turn::none});
  digits_.push_back({sizes.back().groups, Turn::none});
  if (choice.composition == flat) {
    turn_flat(turn_of(algorithm, size));
    return;
  }

  const bool one_node = levels_of(composition, levels).size() < levels.size();
  const std::size_t across = levels.size() - (composition.has_parts && one_node ? 1 : 0);
  digits_[across].turn = turn_of(algorithm, digits_[across].values);
  for (std::size_t i = 0; i < across; ++i) {
    // Of nodes that are taken as a whole, whole parts turn.
    if (composition.has_parts || i + 1 == across) digits_[i].turn = composition.turn;
  }
}

// A shift by less than a node, or a part, would tear these apart.
void Symmetry::turn_flat(Turn turn) {
  for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
    if (digit->values < 2) continue;
    digit->turn = turn;
    if (turn != Turn::exclusive_or) return;
  }
}

Rank Symmetry::moved(Rank rank, Rank mover) const {
  Rank to = 0;
  Rank weight = 1;
  for (const Digit& digit : digits_) {
    to += weight * turned(digit.turn, rank % digit.values, mover % digit.values, digit.values);
    rank /= digit.values;
    mover /= digit.values;
    weight *= digit.values;
  }
  return to;
}

Schedule schedule_of(const Choice& choice, Rank rank, Levels levels) {
  const Composition& composition = compositions()[choice.composition];
  const auto size = static_cast<Rank>(levels.back().size());
  BuildOptions options;
  options.radix = choice.radix;
  options.builder.min_slots = slots_for(size);
  return build(composition, algorithms()[choice.algorithm], rank, size,
               levels_of(composition, levels), options);
}

Programs programs_of(const Choice& choice, Levels levels) {
  return with_symmetry(choice, levels, Symmetry(choice, levels));
}

std::size_t different_programs(const Choice& choice, Levels levels) {
  const Symmetry symmetry(choice, levels);
  std::size_t count = 0;
  for (Rank rank = 0; rank < static_cast<Rank>(levels.back().size()); ++rank) {
    count += symmetry.representative(rank) == rank ? 1 : 0;
  }
  return count;
}

Programs all_programs_of(const Choice& choice, Levels levels) {
  return with_symmetry(choice, levels, Symmetry(static_cast<Rank>(levels.back().size())));
}

}  // namespace gpuar
