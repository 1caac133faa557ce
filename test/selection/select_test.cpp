#include "coll_gpuar/selection/select.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "test/algorithms/docs.h"
#include "test/algorithms/source_root.h"
#include "test/catch.h"
#include "test/selection/shapes.h"

namespace gpuar {
namespace {

using test::containers;
using test::layout_of;

LayoutSummary hosts(Rank hosts, Rank ranks) {
  return layout_of(test::equal_nodes(hosts, ranks));
}

LayoutSummary divided(Rank hosts, Rank parts, Rank ranks) {
  return summary_of(test::divided_nodes(hosts, parts, ranks));
}

LayoutSummary one_host(Rank ranks, bool oversubscribed, std::uint64_t cache_per_rank) {
  LayoutSummary layout = hosts(1, ranks);
  layout.oversubscribed = oversubscribed;
  layout.cache_per_rank = cache_per_rank;
  return layout;
}

struct Place {
  const char* name;
  Rank ranks;
  LayoutSummary layout;
  Machine machine = {};
};

const Place places[] = {
    {"1 host x 2", 2, hosts(1, 2)},
    {"1 host x 3", 3, hosts(1, 3)},
    {"1 host x 4", 4, hosts(1, 4)},
    {"1 host x 8", 8, hosts(1, 8)},
    {"1 host x 8, oversubscribed", 8, one_host(8, true, 0)},
    {"1 host x 64", 64, hosts(1, 64)},
    {"2 hosts x 1", 2, hosts(2, 1)},
    {"2 hosts x 16", 32, hosts(2, 16)},
    {"16 hosts x 1", 16, hosts(16, 1)},
    {"64 hosts x 8", 512, hosts(64, 8)},
    {"1024 hosts x 64", 65536, hosts(1024, 64)},
    {"1 host x 2, 16 MiB of cache each", 2, one_host(2, false, std::uint64_t{16} << 20)},
    {"1 host x 8, 4 MiB of cache each", 8, one_host(8, false, std::uint64_t{4} << 20)},
    {"1 host x 2, devices", 2, hosts(1, 2), device_machine()},
    {"1 host x 8, devices", 8, hosts(1, 8), device_machine()},
    {"8 hosts x 8, devices", 64, hosts(8, 8), device_machine()},
    {"1 host x 2, staged devices", 2, hosts(1, 2), staged_machine()},
    {"8 hosts x 8, staged devices", 64, hosts(8, 8), staged_machine()},
    {"2 hosts x 2", 4, hosts(2, 2)},
    {"4 hosts x 2", 8, hosts(4, 2)},
    {"4 hosts x 2, one machine of 2 threads", 8, containers(4, 2, 2)},
    {"hosts of 1 and 3", 4, layout_of({0, 1, 1, 1})},
    {"hosts of 4, 4 and 1", 9, layout_of({0, 0, 0, 0, 1, 1, 1, 1, 2})},
    {"1 host of 2 packages x 2", 4, divided(1, 2, 2)},
    {"1 host of 2 packages x 16", 32, divided(1, 2, 16)},
    {"64 hosts of 2 packages x 8", 1024, divided(64, 2, 8)},
    {"8 hosts of 2 packages x 4, devices", 64, divided(8, 2, 4), device_machine()},
    {"3 hosts x 4, dealt round", 12, layout_of({0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2})},
    {"1 host x 4, on 2 threads", 4, containers(1, 4, 2)},
    {"1 host x 8, on 2 threads", 8, containers(1, 8, 2)},
};

CallShape shape_of(const Place& place, std::uint64_t bytes) {
  CallShape shape;
  shape.bytes = bytes;
  shape.element_bytes = 8;
  shape.ranks = place.ranks;
  shape.layout = place.layout;
  return shape;
}

const Algorithm& chosen(const Choice& choice) {
  return algorithms()[choice.algorithm];
}

const Algorithm* named(const char* name) {
  const Algorithm* algorithm = find_algorithm(name);
  REQUIRE(algorithm != nullptr);
  return algorithm;
}

std::string table() {
  std::ostringstream out;
  for (const Place& place : places) {
    out << place.name << "\n";
    for (std::uint64_t bytes = 8; bytes <= std::uint64_t{1} << 30; bytes *= 4) {
      const Choice choice = select(shape_of(place, bytes), {}, place.machine);
      out << "  " << bytes << " B: " << describe(choice) << ", segments of " << choice.segment_bytes
          << ", " << choice.depth << " in flight\n";
    }
  }
  return out.str();
}

TEST_CASE("the table of choices is the reviewed one", "[selection]") {
  const std::string now = table();
  INFO("if the change is meant, raise wire_protocol, and test/selection/choices.txt becomes:\n"
       << now);
  CHECK((read_file(std::string(source_root) + "/test/selection/choices.txt") == now));
}

TEST_CASE("auto picks ring, tree and recursive doubling each somewhere", "[selection]") {
  std::set<std::string_view> picked;
  bool tree = false;
  for (const Place& place : places) {
    for (std::uint64_t bytes = 8; bytes <= std::uint64_t{1} << 30; bytes *= 2) {
      const Choice choice = select(shape_of(place, bytes));
      picked.insert(chosen(choice).name);
      tree |= describe(choice).find("tree") != std::string::npos;  // within nodes, under leaders
    }
  }
  CHECK(tree);
  CHECK(picked.count("ring") == 1);
  CHECK(picked.count("rabenseifner") == 1);
  CHECK(picked.count("recursive_doubling") == 1);
}

TEST_CASE("more bytes never take less time, and fewer bytes on the path win in the end",
          "[selection]") {
  for (const Place& place : places) {
    std::uint64_t before = 0;
    for (std::uint64_t bytes = 8; bytes <= std::uint64_t{1} << 40; bytes *= 2) {
      const std::uint64_t now = select(shape_of(place, bytes), {}, place.machine).predicted_ps;
      INFO(place.name << ", " << bytes << " bytes");
      CHECK(now >= before);
      before = now;
    }
  }
  CHECK(chosen(select(shape_of(places[1], 8))).name != "ring");
  const Cost large = chosen(select(shape_of(places[3], 1 << 26))).cost(8, 2);
  CHECK(large.sent < 2 * large.parts);
}

// A second round saves reductions, but forwards what was just reduced: it pays once nothing is in
// the cache any more.
TEST_CASE("two ranks of a host: one round, then bandwidth in segments", "[selection]") {
  CHECK(chosen(select(shape_of(places[0], 8))).cost(2, 2).rounds == 1);
  CHECK(chosen(select(shape_of(places[0], 16384))).cost(2, 2).rounds == 1);
  const Choice large = select(shape_of(places[0], 64 << 20));
  CHECK(chosen(large).chunks(2) == 2);
  CHECK(large.segment_bytes >= 120 << 10);
  CHECK(large.segment_bytes <= 2 << 20);
  CHECK(large.depth > 1);
}

TEST_CASE("one rank alone is served too", "[selection]") {
  for (const std::uint64_t bytes : {0, 1, 8, 1 << 20, 1 << 28}) {
    const CallShape shape = shape_of({"1 host x 1", 1, hosts(1, 1)}, bytes);
    CHECK(chosen(select(shape)).cost(1, 2).messages == 0);
    for (const Algorithm& algorithm : algorithms()) {
      Forced forced;
      forced.algorithm = &algorithm;
      CHECK(select(shape, forced).segment_bytes > 0);
    }
  }
}

// Everything that can be forced, and nothing.
std::vector<Forced> all_forced() {
  std::vector<Forced> all{Forced{}};
  for (const Composition& composition : compositions()) {
    all.push_back({nullptr, 0, 0, 0, &composition});
    for (const Algorithm& algorithm : algorithms()) {
      all.push_back({&algorithm, 0, 0, 0, &composition});
    }
  }
  return all;
}

// From the promises of algorithm and groups alone.
bool serves(const Choice& choice, const CallShape& shape) {
  const Algorithm& algorithm = chosen(choice);
  const LayoutSummary& layout = shape.layout;
  const bool composed = choice.composition != flat;
  const bool deep = compositions()[choice.composition].has_parts;
  Grouping grouping = Grouping::subtrees;
  if (composed && layout.hosts > 1) grouping = layout.hosts_are;
  if (deep) grouping = std::min(grouping, layout.parts_are);
  const bool runs = grouping != Grouping::scattered;
  const bool subtrees = grouping == Grouping::subtrees;
  const std::uint32_t groups = deep && layout.hosts == 1 ? layout.parts : layout.hosts;
  return (shape.commutative || (algorithm.keeps_rank_order && runs)) &&
         (!shape.reproducible || (algorithm.reproducible && subtrees)) &&
         (!composed || (groups > 1 && layout.max_ranks_per_host > 1)) &&
         (!deep || layout.parts > layout.hosts) &&
         (composed ? static_cast<Rank>(groups) : shape.ranks) <= algorithm.max_size &&
         choice.segment_bytes != 0 && choice.depth != 0 &&
         (shape.element_bytes == 0 || choice.segment_bytes % shape.element_bytes == 0);
}

TEST_CASE("a choice always serves the call", "[selection]") {
  for (const Place& place : places) {
    for (std::uint64_t bytes : {0, 1, 7, 8, 9, 4096, 1 << 20, (1 << 26) + 3}) {
      for (const bool commutative : {false, true}) {
        for (const bool reproducible : {false, true}) {
          for (const std::uint64_t element : {0UL, 1UL, 16UL, 1000UL, 1UL << 40}) {
            CallShape shape = shape_of(place, bytes);
            shape.commutative = commutative;
            shape.reproducible = reproducible;
            shape.custom = !commutative;
            shape.element_bytes = element;
            for (const Forced& forced : all_forced()) {
              const Choice choice = select(shape, forced);
              if (!serves(choice, shape)) FAIL(explain(choice, shape, forced));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("what is forced is used", "[selection]") {
  const CallShape shape = shape_of(places[2], 1 << 20);
  for (const Algorithm& algorithm : algorithms()) {
    const Choice choice = select(shape, {&algorithm, 50001, 3, 4, &compositions()[flat]});
    CHECK(&chosen(choice) == &algorithm);
    CHECK(choice.reason == Choice::Reason::forced);
    CHECK(choice.segment_bytes == 50000);  // whole elements
    CHECK(choice.depth == 3);
    CHECK(choice.radix == 4);
  }
  // Not more in flight than there are segments, nor segments larger than the message.
  const Choice single = select(shape, {nullptr, 8 << 20, 16, 0, nullptr});
  CHECK(single.segment_bytes == 1 << 20);
  CHECK(single.depth == 1);
}

TEST_CASE("a forced algorithm that cannot serve is replaced, and the reason says so",
          "[selection]") {
  const Forced ring{named("ring"), 0, 0, 0, &compositions()[flat]};
  CallShape shape = shape_of(places[2], 1 << 20);
  shape.commutative = false;
  Choice choice = select(shape, ring);
  CHECK(choice.reason == Choice::Reason::breaks_rank_order);
  CHECK(explain(choice, shape, ring).find("ring was asked for, but does not keep the order") !=
        std::string::npos);

  shape.commutative = true;
  shape.reproducible = true;
  choice = select(shape, ring);
  CHECK(choice.reason == Choice::Reason::not_reproducible);
  CHECK(explain(choice, shape, ring).find("reproducible") != std::string::npos);

  shape = shape_of(places[10], 1 << 20);
  choice = select(shape, ring);
  CHECK(choice.reason == Choice::Reason::too_many_ranks);
  CHECK(explain(choice, shape, ring).find("at most 8192 ranks") != std::string::npos);
}

TEST_CASE("explanations name the algorithm, the segments and the time", "[selection]") {
  const CallShape shape = shape_of(places[2], 1 << 26);
  const std::string line = explain(select(shape), shape);
  const std::string start = "two_shot, 274 segments of 245760 bytes, 2 in flight: ";
  CHECK(line.find(start + "least predicted time (") == 0);
  CHECK(line.find("; otherwise ") != std::string::npos);
  CHECK(line.find('\n') == std::string::npos);
  Choice timed = select(shape);
  timed.predicted_ps = 12'987'654;
  CHECK(explain(timed, shape).find("least predicted time (12.9 us") != std::string::npos);
}

TEST_CASE("names are read: algorithms, compositions, and both", "[selection]") {
  Forced forced;
  std::string why;
  CHECK(parse_algorithm("tree", forced, why));
  CHECK(forced.algorithm == find_algorithm("tree"));
  CHECK(forced.composition == &compositions()[flat]);
  CHECK(parse_algorithm("hierarchy", forced, why));
  CHECK(forced.algorithm == nullptr);
  CHECK(forced.composition == find_composition("hierarchy"));
  CHECK(parse_algorithm("leaders:double_tree", forced, why));
  CHECK(forced.algorithm == find_algorithm("double_tree"));
  CHECK(forced.composition == find_composition("leaders"));
  CHECK(parse_algorithm("auto", forced, why));
  CHECK(forced.algorithm == nullptr);
  CHECK(forced.composition == nullptr);
  CHECK(why.empty());
  for (const char* unknown :
       {"rign", "hierarchy:", "hierarchy:rign", ":ring", "ring:leaders", ""}) {
    INFO(unknown);
    CHECK_FALSE(parse_algorithm(unknown, forced, why));
    CHECK(why.find('"' + std::string(unknown) + '"') != std::string::npos);
    for (const char* part : {"auto, ", "ring", "rabenseifner", "hierarchy:ring",
                             ", hierarchy, leaders, deep_hierarchy, deep_leaders; "})
      CHECK(why.find(part) != std::string::npos);
  }
}

TEST_CASE("compositions are chosen, forced, refused and explained", "[selection]") {
  const auto explained = [](const Place& place, std::uint64_t bytes, const Forced& forced,
                            bool reproducible = false) {
    CallShape shape = shape_of(place, bytes);
    shape.reproducible = reproducible;
    return explain(select(shape, forced), shape, forced);
  };
  Forced forced;
  std::string why;
  REQUIRE(parse_algorithm("hierarchy:ring", forced, why));
  const Place pairs{"", 8, hosts(4, 2)};
  CHECK(explained(pairs, 1 << 20, forced).find("hierarchy with ring across, ") == 0);
  CHECK(explained(pairs, 1 << 20, forced).find(": asked for (") != std::string::npos);
  CHECK(explained(places[3], 1 << 20, forced)
            .find("hierarchy:ring was asked for, but needs several nodes") != std::string::npos);
  REQUIRE(parse_algorithm("leaders", forced, why));
  CHECK(explained(pairs, 8, forced).find("leaders with ") == 0);
  CHECK(explained(pairs, 8, forced, true).find("leaders with ") == 0);
  const Place uneven{"", 4, layout_of({0, 1, 1, 1})};
  CHECK(explained(uneven, 8, forced, true).find("leaders was asked for, but does not follow") !=
        std::string::npos);
  REQUIRE(parse_algorithm("deep_hierarchy:ring", forced, why));
  CHECK(explained(pairs, 1 << 20, forced)
            .find("deep_hierarchy:ring was asked for, but needs a node with several packages") !=
        std::string::npos);
  const Place packages{"", 16, divided(1, 2, 8)};
  CHECK(explained(packages, 1 << 20, forced).find("deep_hierarchy with ring across, ") == 0);
  REQUIRE(parse_algorithm("deep_leaders", forced, why));
  CHECK(explained(packages, 8, forced, true).find("deep_leaders with ") == 0);
  const Place odd{"", 6, summary_of(std::vector<Level>{{0, 0, 0, 1, 1, 1}, {0, 0, 0, 0, 0, 0}})};
  CHECK(explained(odd, 8, forced, true).find("deep_leaders was asked for, but does not follow") !=
        std::string::npos);
  // Within the nodes all of the vector moves, across them only what must.
  for (const std::uint64_t bytes : {8, 1 << 14, 1 << 26}) {
    INFO(bytes);
    CHECK(select(shape_of({"", 32, hosts(2, 16)}, bytes)).composition != flat);
  }
  CHECK(select(shape_of({"", 32, hosts(1, 32)}, 8)).composition == flat);
  CHECK(select(shape_of({"", 32, hosts(32, 1)}, 8)).composition == flat);
}

TEST_CASE("across nodes it is these that an algorithm's limit counts", "[selection]") {
  CallShape shape = shape_of({"", 16384, hosts(2048, 8)}, 1 << 20);
  const Algorithm* const ring = find_algorithm("ring");
  REQUIRE(ring->max_size < shape.ranks);
  REQUIRE(ring->max_size > 2048);
  const auto forced = [&](const char* composition) {
    return select(shape, {ring, 0, 0, 0, find_composition(composition)}).reason;
  };
  CHECK(forced("hierarchy") == Choice::Reason::forced);
  CHECK(forced("flat") == Choice::Reason::too_many_ranks);
}

TEST_CASE("a call's shape cannot hold a pointer", "[selection]") {
  // Every field is a number or a truth value, counted here: a new one has to pass by this test.
  CHECK(sizeof(CallShape) ==
        8 + 8 + 4 + (1 + 1 + 1) + 1 + (3 * 4 + 1) + 3 + (5 * 4 + 1) + 1 + 2 + 8 + 4 + 4);
  CHECK(std::is_trivially_copyable_v<CallShape>);
}

TEST_CASE("pipelining: the first segment fills, the others follow at the busiest resource",
          "[selection]") {
  // One byte takes 1000 ps on the wire and nothing else costs anything.
  Machine machine;
  machine.network = {0, 0, 1000};
  machine.reduce_byte = 0;
  machine.uncached_byte = machine.shared_cache_byte = 0;
  CallShape shape = shape_of({"", 2, hosts(2, 1)}, 8000);
  const auto doubling = [&](std::uint64_t segment_bytes, std::uint32_t depth) {
    const auto algorithm =
        static_cast<std::uint32_t>(named("recursive_doubling") - algorithms().data());
    return predict({algorithm, 2, segment_bytes, depth}, shape, machine);
  };
  CHECK(doubling(8000, 1) == 8'000'000);
  CHECK(doubling(800, 4) == 8'000'000);
  // With a latency, depth hides it up to the wire's own time.
  machine.network.latency = 10'000;
  CHECK(doubling(800, 1) == 8'100'000);
  CHECK(doubling(800, 2) == 810'000 + 9 * 800'000);
  // Reductions overlap with the network, not with copies through shared memory.
  machine.network = machine.shared_memory = {0, 0, 1000};
  machine.reduce_byte = 500;
  CHECK(doubling(800, 4) == 1'200'000 + 9 * 800'000);
  shape.layout = hosts(1, 2);
  CHECK(doubling(800, 4) == 12'000'000);
}

TEST_CASE("a hierarchy takes its part within the nodes and its part across", "[selection]") {
  // Two nodes of four: 3 µs for a byte within, 1000 µs across; four ranks share the way out.
  Machine machine;
  machine.shared_memory = {100, 0, 3};
  machine.network = {5000, 0, 1000, 0};
  machine.reduce_byte = 0;
  machine.uncached_byte = machine.shared_cache_byte = 0;
  const CallShape shape = shape_of({"", 8, hosts(2, 4)}, 8000);
  const auto taken = [&](const char* composition, const char* algorithm, std::uint64_t segment) {
    const auto c =
        static_cast<std::uint32_t>(find_composition(composition) - compositions().data());
    const auto a = static_cast<std::uint32_t>(named(algorithm) - algorithms().data());
    return predict({a, 2, segment, 8, 0, {}, c}, shape, machine);
  };
  // Two rounds and 6/4 of the vector within; one round across, with a quarter for each of four.
  const std::uint64_t within = 2 * 100 + 12000 * 3;
  CHECK(taken("hierarchy", "recursive_doubling", 8000) == within + 5000 + 8'000'000);
  // Up and down a tree of two levels: two messages a level at the root.
  CHECK(taken("leaders", "recursive_doubling", 8000) == 4 * 100 + 4 * 8000 * 3 + 5000 + 8'000'000);
  // In segments the network is the busiest, and all else is hidden behind it.
  CHECK(taken("hierarchy", "recursive_doubling", 800) ==
        2 * 100 + 1200 * 3 + 5000 + 800'000 + 9 * 800'000);
}

}  // namespace
}  // namespace gpuar
