// The walk over schedules, the closed formulas and the symmetries: each must agree with the others.
#include "coll_gpuar/selection/walk.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "test/catch.h"
#include "test/selection/shapes.h"

namespace gpuar {
namespace {

using namespace test;

Choice choice_of(const char* composition, const char* algorithm, std::uint32_t radix,
                 std::uint64_t bytes) {
  Choice choice;
  choice.composition =
      static_cast<std::uint32_t>(find_composition(composition) - compositions().data());
  choice.algorithm = static_cast<std::uint32_t>(find_algorithm(algorithm) - algorithms().data());
  choice.radix = radix;
  choice.segment_bytes = bytes;
  return choice;
}

std::uint64_t walked(const Choice& choice, const Level& nodes, std::uint64_t bytes,
                     const Fabric& fabric) {
  return walk(programs_of(choice, {&nodes, 1}), choice, shape_of(nodes, bytes), fabric);
}

// 2 µs for a message, 1 ns for a byte, a quarter for reducing it.
Machine plain() {
  Machine machine;
  machine.network = {1'500'000, 500'000, 1'000};
  machine.reduce_byte = 250;
  machine.uncached_byte = machine.shared_cache_byte = 0;
  return machine;
}

TEST_CASE("ring and tree take what their formulas say on a flat network, within 1 %", "[walk]") {
  for (const Rank ranks : {2, 3, 8, 13, 64, 100, 1024}) {
    for (const std::uint64_t elements : {1, 1000}) {
      const Level nodes = equal_nodes(ranks, 1);
      const std::uint64_t part = 8 * elements;
      const std::uint64_t steps = 2 * (static_cast<std::uint64_t>(ranks) - 1);
      const std::uint64_t bytes = part * static_cast<std::uint64_t>(ranks);
      INFO(ranks << " ranks, " << bytes << " bytes");
      const auto ring = static_cast<double>(
          walked(choice_of("flat", "ring", 2, bytes), nodes, bytes, {plain(), 0}));
      CHECK(ring ==
            Approx(steps * (2'000'000 + part * 1'000) + steps / 2 * part * 250).epsilon(0.01));
    }
  }
  for (const std::uint64_t levels : {1, 2, 3, 6, 10}) {
    for (const std::uint64_t bytes : {8, 8000}) {
      const Level nodes = equal_nodes(Rank{1} << levels, 1);
      INFO(levels << " levels, " << bytes << " bytes");
      const auto tree = static_cast<double>(
          walked(choice_of("flat", "tree", 2, bytes), nodes, bytes, {plain(), 0}));
      CHECK(tree ==
            Approx(2 * levels * (2'000'000 + bytes * 1'000) + levels * bytes * 250).epsilon(0.01));
    }
  }
}

// How far the walk may be from the closed formula, as a factor.
struct Bounds {
  double least, most;
};

// Of short messages only the number of steps counts; there the formulas are exact, but where
// folding lengthens the chain they take the longest for all. Long ones queue at ports, and segments
// overtake each other, which no formula follows to the end. A flat algorithm's formula does not
// know which of its messages stay within nodes.
Bounds allowed(const Choice& choice, const Level& nodes, std::uint64_t bytes) {
  const GroupSizes sizes = sizes_of(nodes);
  const bool mixed = choice.composition == flat && sizes.groups > 1 && sizes.largest > 1;
  if (mixed) return {0.05, 1.6};
  const bool folds = (sizes.ranks & (sizes.ranks - 1)) != 0;
  if (bytes <= 8) return folds ? Bounds{0.7, 1.12} : Bounds{0.97, 1.01};
  return {0.7, 1.6};
}

TEST_CASE("the closed formulas are what the walk takes", "[walk]") {
  for (const auto& [count, each] : std::vector<std::pair<Rank, Rank>>{
           {1, 2}, {1, 8}, {1, 13}, {8, 1}, {13, 1}, {64, 1}, {4, 4}, {16, 8}, {6, 5}}) {
    const Level nodes = equal_nodes(count, each);
    for (const Composition& composition : compositions()) {
      if (composition.has_parts) continue;  // none of these nodes is divided
      if (&composition != &compositions()[flat] && (count == 1 || each == 1)) continue;
      for (const Algorithm& algorithm : algorithms()) {
        const Forced forced{&algorithm, 0, 0, 0, &composition};
        for (const std::uint64_t bytes : {8UL, 16384UL, 1UL << 20, 1UL << 28}) {
          const Choice choice = select(shape_of(nodes, bytes), forced);
          const double factor = static_cast<double>(walked(choice, nodes, bytes, {})) /
                                static_cast<double>(choice.predicted_ps);
          const Bounds bounds = allowed(choice, nodes, bytes);
          INFO(describe(choice) << " on " << count << " x " << each << ", " << bytes << " bytes");
          CHECK(factor >= bounds.least);
          CHECK(factor <= bounds.most);
        }
      }
    }
  }
}

// Ranks that share a port take turns, and what stands for all of them has the last turn.
TEST_CASE("one rank stands for all that are alike", "[walk]") {
  for (const auto& [count, each] : std::vector<std::pair<Rank, Rank>>{
           {1, 8}, {1, 13}, {13, 1}, {64, 1}, {4, 4}, {16, 8}, {6, 5}}) {
    const Level nodes = equal_nodes(count, each);
    for (const Composition& composition : compositions()) {
      if (composition.has_parts) continue;  // none of these nodes is divided
      if (&composition != &compositions()[flat] && (count == 1 || each == 1)) continue;
      for (const Algorithm& algorithm : algorithms()) {
        for (const std::uint64_t bytes : {8UL, 16384UL, 1UL << 24}) {
          Machine machine;
          machine.ports = each > 1 && bytes > 8 ? port_for_each_rank : 1;
          const CallShape shape = shape_of(nodes, bytes);
          const Choice choice = select(shape, {&algorithm, 0, 0, 0, &composition}, machine);
          const Programs few = programs_of(choice, {&nodes, 1});
          const Programs all = all_programs_of(choice, {&nodes, 1});
          INFO(describe(choice) << " on " << count << " x " << each << ", " << bytes << " bytes, "
                                << few.all.size() << " stand for all");
          const auto by_few = static_cast<double>(walk(few, choice, shape, {machine, 0}));
          const auto by_all = static_cast<double>(walk(all, choice, shape, {machine, 0}));
          // Where ranks queue for a core, or segments for a port, who comes first differs.
          CHECK(by_few == Approx(by_all).epsilon(bytes > 8 ? 0.11 : 0.02));
          if (bytes == 8) continue;  // of so many chunks all but one are empty
          const auto sent = static_cast<double>(traffic(all, shape).of_node);
          CHECK(static_cast<double>(traffic(few, shape).of_node) == Approx(sent).epsilon(0.02));
        }
      }
    }
  }
}

// Packages of nodes: the longer way between them is taken as seldom as the composition promises.
std::uint64_t walked_on(Levels levels, const Choice& choice, std::uint64_t bytes,
                        const Fabric& fabric) {
  CallShape shape = shape_of(levels.back(), bytes);
  shape.layout = summary_of(levels);
  return walk(programs_of(choice, levels), choice, shape, fabric);
}

TEST_CASE("the closed formulas are what the walk takes on divided nodes, by few ranks or by all",
          "[walk]") {
  for (const auto& [nodes, parts, ranks] : std::vector<std::tuple<Rank, Rank, Rank>>{
           {1, 2, 2}, {1, 2, 8}, {1, 4, 3}, {4, 2, 4}, {3, 2, 2}, {8, 4, 2}}) {
    const std::vector<Level> levels = divided_nodes(nodes, parts, ranks);
    for (const Composition& composition : compositions()) {
      if (nodes == 1 && &composition != &compositions()[flat] && !composition.has_parts) continue;
      for (const Algorithm& algorithm : algorithms()) {
        for (const std::uint64_t bytes : {8UL, 16384UL, 1UL << 22}) {
          CallShape shape = shape_of(levels.back(), bytes);
          shape.layout = summary_of(levels);
          Machine machine;
          machine.ports = bytes > 8 ? port_for_each_rank : 1;
          const Choice choice = select(shape, {&algorithm, 0, 0, 0, &composition}, machine);
          const Programs few = programs_of(choice, levels);
          const Programs all = all_programs_of(choice, levels);
          const auto by_few = static_cast<double>(walk(few, choice, shape, {machine, 0}));
          const auto by_all = static_cast<double>(walk(all, choice, shape, {machine, 0}));
          INFO(describe(choice) << " on " << nodes << " x " << parts << " x " << ranks << ", "
                                << bytes << " bytes, " << few.all.size() << " stand for all");
          // Near and far messages meet at a core, and who comes first differs.
          CHECK(by_few == Approx(by_all).epsilon(0.18));
          // A formula that knows of no packages takes the longest way for all of them.
          const double factor = by_all / static_cast<double>(choice.predicted_ps);
          CHECK(factor <= 1.6);
          CHECK(factor >= (composition.has_parts ? 0.6 : 0.05));
        }
      }
    }
  }
}

TEST_CASE("what is stored on its way arrives later, and keeps nobody busy", "[walk]") {
  Machine machine = plain();
  machine.network.stored_byte = 3'000;
  machine.own_cache_message = machine.cached_message = machine.cached_segment = ~std::uint64_t{0};
  const Level nodes = equal_nodes(2, 1);
  const std::uint64_t bytes = 1 << 20;
  Choice choice = choice_of("flat", "recursive_doubling", 2, bytes);
  // On the wire, stored, reduced.
  const auto whole = static_cast<double>(bytes * (1'000 + 3'000 + 250));
  CHECK(static_cast<double>(walked(choice, nodes, bytes, {machine, 0})) ==
        Approx(whole).epsilon(0.01));
  CHECK(static_cast<double>(predict(choice, shape_of(nodes, bytes), machine)) ==
        Approx(whole).epsilon(0.01));
  // Of many segments only the first is stored by itself; the wire is always busy.
  choice.segment_bytes = 1 << 14;
  choice.depth = 8;
  const auto pipelined = static_cast<double>(bytes * 1'000);
  CHECK(static_cast<double>(walked(choice, nodes, bytes, {machine, 0})) ==
        Approx(pipelined).epsilon(0.2));
}

TEST_CASE("what goes to another package shares its way out", "[walk]") {
  // Two packages of two ranks: each with its like in the other one, in half a millisecond each for
  // its bytes, and one after the other where there is one stream.
  Machine machine;
  machine.shared_memory = {0, 0, 0};
  machine.between_parts = {0, 0, 500};
  machine.reduce_byte = machine.uncached_byte = machine.shared_cache_byte = 0;
  machine.moves_by_itself = true;
  const std::vector<Level> levels = divided_nodes(1, 2, 2);
  const std::uint64_t bytes = 1'000'000;
  const Choice doubling = choice_of("flat", "recursive_doubling", 2, bytes);
  machine.streams = 2;
  CHECK(walked_on(levels, doubling, bytes, {machine, 0}) == 500'000'000);
  machine.streams = 1;
  CHECK(walked_on(levels, doubling, bytes, {machine, 0}) == 1'000'000'000);
  // Half of the bytes each, and the same again back.
  const Choice deep = choice_of("deep_hierarchy", "recursive_doubling", 2, bytes);
  CHECK(walked_on(levels, deep, bytes, {machine, 0}) == 500'000'000);
}

TEST_CASE("65,536 ranks are walked by few of them", "[walk]") {
  const Level nodes = equal_nodes(8192, 8);
  for (const auto& [composition, algorithm, programs] :
       std::vector<std::tuple<const char*, const char*, std::size_t>>{
           {"flat", "recursive_doubling", 1},
           {"hierarchy", "rabenseifner", 1},
           {"leaders", "recursive_doubling", 8}}) {
    const Choice choice = choice_of(composition, algorithm, 8, 8);
    const Programs walkable = programs_of(choice, {&nodes, 1});
    CHECK(walkable.all.size() == programs);
    CHECK(walk(walkable, choice, shape_of(nodes, 8), {}) > 0);
  }
}

TEST_CASE("what ranks share takes its time for each, and a launch for each reduction", "[walk]") {
  // Two nodes of two, each rank with the one in its place there: a millisecond for their bytes.
  Machine machine;
  machine.network = {0, 0, 1'000, 0};
  machine.shared_memory = {0, 0, 0};
  machine.reduce_byte = machine.uncached_byte = machine.shared_cache_byte = 0;
  const Level nodes = equal_nodes(2, 2);
  const std::uint64_t bytes = 1'000'000;
  const Choice choice = choice_of("flat", "recursive_doubling", 2, bytes);
  CHECK(walked(choice, nodes, bytes, {machine, 0}) == 2'000'000'000);
  machine.ports = 2;
  CHECK(walked(choice, nodes, bytes, {machine, 0}) == 1'000'000'000);
  CHECK(walked(choice, nodes, bytes, {machine, 5'000}) == 1'000'000'000 + 2 * 5'000);
}

TEST_CASE("traffic: what the busiest rank sends, and what the busiest node sends to others",
          "[walk]") {
  const std::uint64_t bytes = 4000;
  const auto sent = [&](const char* algorithm, const Level& nodes) {
    const Choice choice = choice_of("flat", algorithm, 2, bytes);
    return traffic(programs_of(choice, {&nodes, 1}), shape_of(nodes, bytes));
  };
  // Once to the other rank of the node, and once to the other node, as do two ranks of each.
  const Traffic doubling = sent("recursive_doubling", {0, 0, 1, 1});
  CHECK(doubling.of_rank == 2 * bytes);
  CHECK(doubling.of_node == 2 * bytes);
  // Each of the two ranks of the last nodes sends to the three of the others.
  const Traffic direct = sent("direct", {0, 1, 1, 2, 2});
  CHECK(direct.of_rank == 4 * bytes);
  CHECK(direct.of_node == 6 * bytes);
}

// Only the first segments are walked. Whatever these show, the others cannot be sent faster than
// the port of a node lets them through.
TEST_CASE("many segments take no less time than the busiest port", "[walk]") {
  for (const auto& [count, each] :
       std::vector<std::pair<Rank, Rank>>{{2, 1}, {5, 1}, {4, 4}, {3, 5}}) {
    const Level nodes = equal_nodes(count, each);
    for (const Composition& composition : compositions()) {
      if (composition.has_parts) continue;
      if (&composition != &compositions()[flat] && each == 1) continue;
      for (const Algorithm& algorithm : algorithms()) {
        for (const std::uint32_t depth : {1, 2, 4}) {
          const std::uint64_t bytes = 1 << 28;
          const Forced forced{&algorithm, 1 << 18, depth, 0, &composition};
          const Choice choice = select(shape_of(nodes, bytes), forced);
          const Programs programs = all_programs_of(choice, {&nodes, 1});
          const Machine machine;
          const std::uint64_t sent = traffic(programs, shape_of(nodes, bytes)).of_node;
          INFO(describe(choice) << " on " << count << " x " << each << ", depth " << depth);
          CHECK(walked(choice, nodes, bytes, {machine, 0}) >=
                (sent - sent / 1000) * machine.network.byte);
        }
      }
    }
  }
}

TEST_CASE("ranks that are not placed alike are not taken for each other", "[selection]") {
  const Choice choice = choice_of("hierarchy", "ring", 2, 1 << 20);
  const Level filled{0, 0, 1, 1};
  const Level dealt{0, 1, 0, 1};  // equal nodes all the same
  CHECK(different_programs(choice, {&filled, 1}) == 1);
  CHECK(different_programs(choice, {&dealt, 1}) == 4);
}

}  // namespace
}  // namespace gpuar
