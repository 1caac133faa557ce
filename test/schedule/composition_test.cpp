// Every composition of every algorithm, run symbolically on nodes of many shapes.
#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

#include "test/catch.h"
#include "test/schedule/world.h"

namespace gpuar {
namespace {

using namespace symbolic;

// Nodes of these sizes, one after the other.
Level nodes_of(const std::vector<Rank>& sizes) {
  Level level;
  for (std::size_t node = 0; node < sizes.size(); ++node) {
    level.insert(level.end(), static_cast<std::size_t>(sizes[node]),
                 static_cast<std::int32_t>(node));
  }
  return level;
}

Level equal_nodes(Rank nodes, Rank ranks) {
  return nodes_of(std::vector<Rank>(static_cast<std::size_t>(nodes), ranks));
}

std::string text(Levels levels) {
  std::string text;
  for (const Level& level : levels) {
    text += "; groups";
    for (const std::int32_t group : level) text += ' ' + std::to_string(group);
  }
  return text;
}

// What the result must look like, if the algorithms keep what they promise and so do the groups.
Shape promised(const Composition& composition, const Algorithm& algorithm, Levels levels,
               Association association) {
  Grouping grouping = Grouping::subtrees;
  if (&composition != &compositions()[flat]) {
    for (const Level& level : levels) grouping = std::min(grouping, grouping_of(level));
  }
  if (association == Association::tree && algorithm.reproducible &&
      grouping == Grouping::subtrees) {
    return Shape::tree;
  }
  const bool in_order = algorithm.keeps_rank_order && grouping >= Grouping::runs;
  return in_order ? Shape::rank_order : Shape::any;
}

void check_composition(const Composition& composition, const Algorithm& algorithm, Levels levels,
                       const BuildOptions& options, InPlace in_place) {
  static std::uint64_t seed = 0;
  const auto schedules = build_all(composition, algorithm, levels, options);
  const Shape shape = promised(composition, algorithm, levels, options.builder.association);
  const std::string failure = check(schedules, in_place, shape, ++seed).failure;
  if (failure.empty()) return;
  FAIL(failure << ": " << composition.name << " of " << algorithm.name << " radix " << options.radix
               << text(levels));
}

// Those over the nodes alone; the deep ones are the same functions, over one level more.
std::span<const Composition> over(Levels levels) {
  return levels.size() == 1 ? compositions().subspan(1, 2) : compositions().subspan(3);
}

// All of them, with slots, radix and place drawn at random.
void check_all(Levels levels, std::mt19937& random) {
  for (const Composition& composition : over(levels)) {
    for (const Algorithm& algorithm : algorithms()) {
      for (const Association association : {Association::chain, Association::tree}) {
        const std::uint32_t slots = 1U << (random() % 5);
        const std::uint32_t radix = 2U << (random() % 3);
        const InPlace in_place = random() % 2 == 0 ? InPlace::no : InPlace::yes;
        check_composition(composition, algorithm, levels, {radix, {slots, association}}, in_place);
      }
    }
  }
}

// Cuts `ranks` into nodes of random sizes up to `most`.
std::vector<Rank> random_sizes(Rank ranks, Rank most, std::mt19937& random) {
  std::vector<Rank> sizes;
  while (ranks > 0) {
    const Rank size = 1 + static_cast<Rank>(random() % static_cast<std::uint32_t>(most));
    sizes.push_back(std::min(size, ranks));
    ranks -= sizes.back();
  }
  return sizes;
}

TEST_CASE("compositions are an allreduce on the shapes that are asked about first",
          "[composition]") {
  std::mt19937 random(1);
  for (const auto& sizes : std::vector<std::vector<Rank>>{{1},
                                                          {4},
                                                          {1, 1},
                                                          {1, 1, 1},
                                                          {2, 2},
                                                          {1, 3},
                                                          {3, 1},
                                                          {4, 4, 1},
                                                          {1, 4, 4},
                                                          {2, 1, 2},
                                                          {5, 1},
                                                          {1, 63},
                                                          {7, 5, 3},
                                                          {4, 2},
                                                          {8, 8},
                                                          {3, 3, 3},
                                                          {2, 2, 2, 2},
                                                          {16, 16}}) {
    const Level level = nodes_of(sizes);
    check_all({&level, 1}, random);
  }
}

TEST_CASE("compositions are an allreduce on random nodes of up to 64 ranks",
          "[composition][scale]") {
  std::mt19937 random(2);
  for (Rank ranks = 2; ranks <= 64; ++ranks) {
    const Rank most = 1 + static_cast<Rank>(random() % static_cast<std::uint32_t>(ranks));
    Level level = nodes_of(random_sizes(ranks, most, random));
    check_all({&level, 1}, random);
    std::shuffle(level.begin(), level.end(), random);  // ranks placed anywhere
    check_all({&level, 1}, random);
  }
}

TEST_CASE("nodes that are whole subtrees keep the one association", "[composition][scale]") {
  std::mt19937 random(3);
  for (Rank ranks = 2; ranks <= 40; ++ranks) {
    Rank leaves = 1;
    while (leaves * 2 <= ranks) leaves *= 2;
    const Rank pairs = ranks - leaves;
    for (Rank per_node = 1; per_node <= leaves; per_node *= 2) {
      Level level;
      for (Rank leaf = 0; leaf < leaves; ++leaf) {
        for (int i = leaf < pairs ? 2 : 1; i > 0; --i) level.push_back(leaf / per_node);
      }
      REQUIRE(grouping_of(level) == Grouping::subtrees);
      check_all({&level, 1}, random);
    }
  }
}

TEST_CASE("compositions are an allreduce on NUMA domains within nodes", "[composition]") {
  std::mt19937 random(4);
  for (Rank ranks = 2; ranks <= 48; ++ranks) {
    const std::vector<Rank> domains = random_sizes(ranks, 4, random);
    const std::vector<Rank> nodes = random_sizes(static_cast<Rank>(domains.size()), 4, random);
    const Level domain_of = nodes_of(domains);
    const Level node_of_domain = nodes_of(nodes);
    Level node_of;
    for (const std::int32_t domain : domain_of) {
      node_of.push_back(node_of_domain[static_cast<std::size_t>(domain)]);
    }
    const std::vector<Level> levels{domain_of, node_of};
    check_all(levels, random);
  }
  const std::vector<Level> equal{equal_nodes(16, 2), equal_nodes(8, 4), equal_nodes(2, 16)};
  check_all(equal, random);
}

TEST_CASE("compositions are an allreduce at 127, 128 and 1000 ranks", "[composition][scale]") {
  std::mt19937 random(5);
  for (const Rank ranks : {127, 128}) {
    const Level level = nodes_of(random_sizes(ranks, 16, random));
    check_all({&level, 1}, random);
  }
  const Level equal = equal_nodes(125, 8);
  const Level uneven = nodes_of(random_sizes(1000, 24, random));
  for (const Level& level : {equal, uneven}) {
    for (const Composition& composition : over({&level, 1})) {
      for (const Algorithm& algorithm : algorithms()) {
        check_composition(composition, algorithm, {&level, 1}, {2, {4, Association::chain}},
                          InPlace::yes);
      }
    }
  }
}

// Across by algorithms with few messages.
TEST_CASE("compositions are an allreduce at 4096 ranks", "[composition][scale]") {
  const Level level = equal_nodes(512, 8);
  for (const Composition& composition : over({&level, 1})) {
    for (const char* name : {"recursive_doubling", "double_tree"}) {
      check_composition(composition, *find_algorithm(name), {&level, 1},
                        {8, {4, Association::tree}}, InPlace::yes);
    }
  }
}

struct Sent {
  std::uint64_t within = 0;
  std::uint64_t across = 0;
};

Sent sent_by(const Schedule& schedule, const Level& level) {
  Sent sent;
  const auto node = [&](Rank rank) { return level[static_cast<std::size_t>(rank)]; };
  for (const Step& step : schedule.steps) {
    if (step.verb != Verb::send) continue;
    (node(step.peer) == node(schedule.rank) ? sent.within : sent.across) += step.span.count;
  }
  return sent;
}

TEST_CASE("steps and bytes of compositions equal the closed formula on equal nodes",
          "[composition]") {
  for (const Composition& composition : compositions().subspan(1, 2)) {
    for (const Algorithm& algorithm : algorithms()) {
      for (Rank nodes = 1; nodes <= 9; ++nodes) {
        for (Rank ranks = 1; ranks <= 9; ++ranks) {
          const Level level = equal_nodes(nodes, ranks);
          const auto schedules =
              build_all(composition, algorithm, {&level, 1}, {2, {64, Association::chain}});
          std::uint64_t within = 0;
          std::uint64_t across = 0;
          std::uint64_t reduced = 0;
          for (const Schedule& schedule : schedules) {
            const Sent sent = sent_by(schedule, level);
            within = std::max(within, sent.within);
            across = std::max(across, sent.across);
            std::uint64_t here = 0;
            for (const Step& step : schedule.steps) {
              if (step.verb == Verb::reduce) here += step.span.count;
            }
            reduced = std::max(reduced, here);
          }
          const ComposedCost cost = composition.cost(sizes_of({&level, 1}), {algorithm, 2});
          const std::uint64_t chunks = schedules[0].chunks;
          INFO(composition.name << " of " << algorithm.name << ", " << nodes << " x " << ranks);
          CHECK(check(schedules, InPlace::no, Shape::any, 1).rounds ==
                cost.within[0].rounds + cost.across.rounds);
          CHECK(within * cost.within[0].parts == cost.within[0].sent * chunks);
          CHECK(cost.across.parts == chunks);
          CHECK(across == cost.across.sent);
          CHECK(reduced ==
                cost.within[0].reduced * (chunks / cost.within[0].parts) + cost.across.reduced);
        }
      }
    }
  }
}

// Of the ranks of one another's packages, and of other nodes.
struct SentDeep {
  std::uint64_t within = 0;
  std::uint64_t between = 0;
  std::uint64_t across = 0;
};

SentDeep sent_by(const Schedule& schedule, Levels levels) {
  const Sent of_part = sent_by(schedule, levels.front());
  const Sent of_node = sent_by(schedule, levels.back());
  return {of_part.within, of_part.across - of_node.across, of_node.across};
}

TEST_CASE("steps and bytes of deep compositions equal the closed formula on equal groups",
          "[composition]") {
  for (const char* name : {"deep_hierarchy", "deep_leaders"}) {
    const Composition& composition = *find_composition(name);
    for (const Algorithm& algorithm : algorithms()) {
      for (const auto& [nodes, parts, ranks] : std::vector<std::tuple<Rank, Rank, Rank>>{
               {2, 2, 2}, {3, 2, 4}, {2, 3, 1}, {4, 4, 2}, {5, 2, 3}, {3, 5, 2}}) {
        const std::vector<Level> levels{equal_nodes(nodes * parts, ranks),
                                        equal_nodes(nodes, parts * ranks)};
        const auto schedules =
            build_all(composition, algorithm, levels, {2, {64, Association::chain}});
        SentDeep most;
        for (const Schedule& schedule : schedules) {
          const SentDeep sent = sent_by(schedule, levels);
          most.within = std::max(most.within, sent.within);
          most.between = std::max(most.between, sent.between);
          most.across = std::max(most.across, sent.across);
        }
        const ComposedCost cost = composition.cost(sizes_of(levels), {algorithm, 2});
        const std::uint64_t chunks = schedules[0].chunks;
        INFO(name << " of " << algorithm.name << ", " << nodes << " x " << parts << " x " << ranks);
        CHECK(check(schedules, InPlace::no, Shape::any, 1).rounds ==
              cost.within[0].rounds + cost.within[1].rounds + cost.across.rounds);
        CHECK(most.within * cost.within[0].parts == cost.within[0].sent * chunks);
        CHECK(most.between * cost.within[1].parts == cost.within[1].sent * chunks);
        CHECK(cost.across.parts == chunks);
        CHECK(most.across == cost.across.sent);
      }
    }
  }
}

TEST_CASE("levels are counted in groups of the level before", "[composition]") {
  const std::vector<Level> levels{{0, 0, 1, 2, 2, 2, 3}, {0, 0, 0, 1, 1, 1, 1}};
  const std::vector<GroupSizes> sizes = sizes_of(levels);
  REQUIRE(sizes.size() == 2);
  CHECK(std::tuple(sizes[0].ranks, sizes[0].groups, sizes[0].largest, sizes[0].smallest) ==
        std::tuple(7, 4, 3, 1));
  CHECK(std::tuple(sizes[1].ranks, sizes[1].groups, sizes[1].largest, sizes[1].smallest) ==
        std::tuple(4, 2, 2, 2));
}

TEST_CASE("a composition takes the levels that it is made for", "[composition]") {
  const std::vector<Level> divided{{0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 1, 1, 1, 1}};
  const std::vector<Level> one_node{{0, 0, 1, 1}, {0, 0, 0, 0}};
  const auto taken = [](const char* name, const std::vector<Level>& levels) {
    const Levels some = levels_of(*find_composition(name), levels);
    return std::vector<Level>(some.begin(), some.end());
  };
  CHECK(taken("flat", divided).empty());
  CHECK(taken("hierarchy", divided) == std::vector<Level>{divided[1]});
  CHECK(taken("deep_hierarchy", divided) == divided);
  CHECK(taken("deep_leaders", one_node) == std::vector<Level>{one_node[0]});
  CHECK(taken("leaders", one_node) == std::vector<Level>{one_node[1]});
}

TEST_CASE("a ring in any order of ranks is an allreduce", "[composition]") {
  std::mt19937 random(8);
  for (const Rank ranks : {1, 2, 3, 8, 13}) {
    const Level one_node(static_cast<std::size_t>(ranks), 0);
    std::vector<Rank> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    BuildOptions options;
    options.order = order;
    const auto schedules =
        build_all(compositions()[flat], *find_algorithm("ring"), {&one_node, 1}, options);
    CHECK(check(schedules, InPlace::no, Shape::any, 1).failure.empty());
    for (std::size_t at = 0; ranks > 1 && at < order.size(); ++at) {
      const Schedule& schedule = schedules[static_cast<std::size_t>(order[at])];
      CHECK(schedule.steps.front().peer == order[(at + 1) % order.size()]);
    }
    // What keeps the order of ranks does not look at it.
    const auto in_order =
        build_all(compositions()[flat], *find_algorithm("rabenseifner"), {&one_node, 1}, options);
    CHECK(check(in_order, InPlace::no, Shape::rank_order, 1).failure.empty());
  }
}

TEST_CASE("no node of a hierarchy sends more to others than one rank alone would",
          "[composition]") {
  std::mt19937 random(6);
  const Composition& hierarchy = *find_composition("hierarchy");
  for (Rank ranks = 2; ranks <= 40; ++ranks) {
    const Level level = nodes_of(random_sizes(ranks, 9, random));
    const GroupSizes sizes = sizes_of(level);
    for (const Algorithm& algorithm : algorithms()) {
      const auto schedules = build_all(hierarchy, algorithm, {&level, 1}, {});
      std::vector<std::uint64_t> by_node(static_cast<std::size_t>(sizes.groups));
      std::uint64_t most = 0;
      for (const Schedule& schedule : schedules) {
        const std::uint64_t across = sent_by(schedule, level).across;
        by_node[static_cast<std::size_t>(level[static_cast<std::size_t>(schedule.rank)])] += across;
        most = std::max(most, across);
      }
      const Cost one = algorithm.cost(sizes.groups, 2);
      INFO(algorithm.name << text({&level, 1}));
      CHECK(*std::max_element(by_node.begin(), by_node.end()) <=
            one.sent * static_cast<std::uint64_t>(sizes.largest));
      CHECK(most <= hierarchy.cost(sizes_of({&level, 1}), {algorithm, 2}).across.sent);
    }
  }
}

TEST_CASE("how groups lie is told from their definition", "[composition]") {
  CHECK(grouping_of(nodes_of({4, 4})) == Grouping::subtrees);
  CHECK(grouping_of(nodes_of({4, 2})) == Grouping::subtrees);  // two pairs, then two leaves
  CHECK(grouping_of(nodes_of({3, 2})) == Grouping::subtrees);
  CHECK(grouping_of(nodes_of({3, 3})) == Grouping::runs);  // cuts a pair
  CHECK(grouping_of(nodes_of({4, 2, 2})) == Grouping::runs);
  CHECK(grouping_of(nodes_of({1, 3})) == Grouping::runs);
  CHECK(grouping_of(nodes_of({2, 2, 2})) == Grouping::runs);
  CHECK(grouping_of({0, 1, 0, 1}) == Grouping::scattered);
  CHECK(grouping_of({0, 0, 1, 0}) == Grouping::scattered);
  const GroupSizes sizes = sizes_of({0, 1, 0, 0, 2});
  CHECK(sizes.ranks == 5);
  CHECK(sizes.groups == 3);
  CHECK(sizes.largest == 3);
  CHECK(sizes.smallest == 1);
}

TEST_CASE("each piece has one worker in every group, and each rank knows its pieces",
          "[composition]") {
  std::mt19937 random(7);
  for (Rank ranks = 1; ranks <= 40; ++ranks) {
    Level level = nodes_of(random_sizes(ranks, 7, random));
    std::shuffle(level.begin(), level.end(), random);
    const Groups any({0, ranks}, level);
    std::vector<std::vector<Rank>> workers;
    for (std::uint32_t piece = 0; piece < any.pieces(); ++piece) {
      workers.push_back(any.workers(piece));
      REQUIRE(std::is_sorted(workers.back().begin(), workers.back().end()));
      REQUIRE(static_cast<Rank>(workers.back().size()) == sizes_of(level).groups);
    }
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Span mine = Groups({rank, ranks}, level).my_pieces();
      REQUIRE(mine.count > 0);
      for (std::uint32_t piece = 0; piece < any.pieces(); ++piece) {
        const auto& of = workers[piece];
        const bool works = std::binary_search(of.begin(), of.end(), rank);
        REQUIRE(works == (piece >= mine.first && piece < mine.first + mine.count));
      }
    }
  }
}

TEST_CASE("what a composition cannot serve is refused", "[composition]") {
  const Level level = equal_nodes(40000, 2);
  const Composition& hierarchy = *find_composition("hierarchy");
  CHECK_THROWS_AS(build(hierarchy, *find_algorithm("ring"), 0, 80000, {&level, 1}),
                  std::invalid_argument);
  CHECK_THROWS_AS(build(hierarchy, *find_algorithm("tree"), 0, 80000, {&level, 1}, {3, {}}),
                  std::invalid_argument);
  CHECK(find_composition("auto") == nullptr);
  for (const Composition& composition : compositions()) {
    CHECK(find_composition(composition.name) == &composition);
    CHECK(find_algorithm(composition.name) == nullptr);
  }
}

}  // namespace
}  // namespace gpuar
