#include "coll_gpuar/selection/select.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>

#include "test/algorithms/docs.h"
#include "test/algorithms/source_root.h"
#include "test/catch.h"

namespace gpuar {
namespace {

struct Place {
  const char* name;
  Rank ranks;
  LayoutSummary layout;
};

const Place places[] = {
    {"1 host x 2", 2, {1, 2, false}},
    {"1 host x 3", 3, {1, 3, false}},
    {"1 host x 4", 4, {1, 4, false}},
    {"1 host x 8", 8, {1, 8, false}},
    {"1 host x 8, oversubscribed", 8, {1, 8, true}},
    {"1 host x 64", 64, {1, 64, false}},
    {"2 hosts x 1", 2, {2, 1, false}},
    {"2 hosts x 16", 32, {2, 16, false}},
    {"16 hosts x 1", 16, {16, 1, false}},
    {"64 hosts x 8", 512, {64, 8, false}},
    {"1024 hosts x 64", 65536, {1024, 64, false}},
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
      const Choice choice = select(shape_of(place, bytes));
      out << "  " << bytes << " B: " << chosen(choice).name;
      if (chosen(choice).has_radix) out << " of radix " << choice.radix;
      out << ", segments of " << choice.segment_bytes << ", " << choice.depth << " in flight\n";
    }
  }
  return out.str();
}

TEST_CASE("the table of choices is the reviewed one", "[selection]") {
  const std::string now = table();
  INFO("if the change is meant, test/selection/choices.txt becomes:\n" << now);
  CHECK((read_file(std::string(source_root) + "/test/selection/choices.txt") == now));
}

TEST_CASE("auto picks ring, tree and recursive doubling each somewhere", "[selection]") {
  std::set<std::string_view> picked;
  for (const Place& place : places) {
    for (std::uint64_t bytes = 8; bytes <= std::uint64_t{1} << 30; bytes *= 2) {
      picked.insert(chosen(select(shape_of(place, bytes))).name);
    }
  }
  CHECK(picked.count("ring") == 1);
  CHECK(picked.count("tree") == 1);
  CHECK(picked.count("recursive_doubling") == 1);
}

TEST_CASE("more bytes never take less time, and fewer bytes on the path win in the end",
          "[selection]") {
  for (const Place& place : places) {
    std::uint64_t before = 0;
    for (std::uint64_t bytes = 8; bytes <= std::uint64_t{1} << 40; bytes *= 2) {
      const std::uint64_t now = select(shape_of(place, bytes)).predicted_ps;
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
  CHECK(large.segment_bytes >= 128 << 10);
  CHECK(large.segment_bytes <= 2 << 20);
  CHECK(large.depth > 1);
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
            for (const Algorithm& forced : algorithms()) {
              for (const Algorithm* algorithm : {static_cast<const Algorithm*>(nullptr), &forced}) {
                const Choice choice = select(shape, {algorithm, 0, 0, 0});
                const Algorithm& serves = chosen(choice);
                const bool in_order = commutative || serves.keeps_rank_order;
                const bool admitted = !reproducible || serves.reproducible;
                if (!in_order || !admitted || place.ranks > serves.max_size ||
                    choice.segment_bytes == 0 || choice.depth == 0 ||
                    (element != 0 && choice.segment_bytes % element != 0)) {
                  FAIL(explain(choice, shape, {algorithm, 0, 0, 0}));
                }
              }
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
    const Choice choice = select(shape, {&algorithm, 50001, 3, 4});
    CHECK(&chosen(choice) == &algorithm);
    CHECK(choice.reason == Choice::Reason::forced);
    CHECK(choice.segment_bytes == 50000);  // whole elements
    CHECK(choice.depth == 3);
    CHECK(choice.radix == 4);
  }
  // Not more in flight than there are segments, nor segments larger than the message.
  const Choice single = select(shape, {nullptr, 8 << 20, 16, 0});
  CHECK(single.segment_bytes == 1 << 20);
  CHECK(single.depth == 1);
}

TEST_CASE("a forced algorithm that cannot serve is replaced, and the reason says so",
          "[selection]") {
  const Forced ring{named("ring"), 0, 0, 0};
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
  CHECK(explain(choice, shape, ring).find("at most 32769 ranks") != std::string::npos);
}

TEST_CASE("explanations name the algorithm, the segments and the time", "[selection]") {
  const CallShape shape = shape_of(places[2], 1 << 26);
  const std::string line = explain(select(shape), shape);
  const std::string start = "rabenseifner, 128 segments of 524288 bytes, 2 in flight: ";
  CHECK(line.find(start + "least predicted time (") == 0);
  CHECK(line.find("; otherwise ") != std::string::npos);
  CHECK(line.find('\n') == std::string::npos);
}

TEST_CASE("unknown names list the valid ones", "[selection]") {
  const Algorithm* algorithm = nullptr;
  std::string why;
  CHECK(parse_algorithm("auto", algorithm, why));
  CHECK(algorithm == nullptr);
  CHECK(parse_algorithm("tree", algorithm, why));
  CHECK(algorithm == find_algorithm("tree"));
  CHECK(why.empty());
  CHECK_FALSE(parse_algorithm("rign", algorithm, why));
  for (const char* part : {"\"rign\"", "auto", "ring", "rabenseifner"}) {
    CHECK(why.find(part) != std::string::npos);
  }
}

TEST_CASE("a call's shape cannot hold a pointer", "[selection]") {
  // Every field is a number or a truth value, counted here: a new one has to pass by this test.
  CHECK(sizeof(CallShape) == 8 + 8 + 4 + (1 + 1 + 1) + 1 + (4 + 4 + 1) + 3 + 4);
  CHECK(std::is_trivially_copyable_v<CallShape>);
}

TEST_CASE("pipelining: the first segment fills, the others follow at the busiest resource",
          "[selection]") {
  // One byte takes 1000 ps on the wire and nothing else costs anything.
  Machine machine;
  machine.network = {0, 0, 1000, 0};
  machine.reduce_byte = 0;
  machine.uncached_byte = 0;
  CallShape shape = shape_of({"", 2, {2, 1, false}}, 8000);
  const Algorithm& doubling = *named("recursive_doubling");
  CHECK(predict(doubling, 2, 8000, 1, shape, machine) == 8'000'000);
  CHECK(predict(doubling, 2, 800, 4, shape, machine) == 8'000'000);
  // With a latency, depth hides it up to the wire's own time.
  machine.network.latency = 10'000;
  CHECK(predict(doubling, 2, 800, 1, shape, machine) == 8'100'000);
  CHECK(predict(doubling, 2, 800, 2, shape, machine) == 810'000 + 9 * 800'000);
  // Reductions overlap with the network, not with copies through shared memory.
  machine.network = machine.shared_memory = {0, 0, 1000, 0};
  machine.reduce_byte = 500;
  CHECK(predict(doubling, 2, 800, 4, shape, machine) == 1'200'000 + 9 * 800'000);
  shape.layout = {1, 2, false};
  CHECK(predict(doubling, 2, 800, 4, shape, machine) == 12'000'000);
}

}  // namespace
}  // namespace gpuar
