// Every algorithm, run symbolically on all its ranks.
#include <algorithm>
#include <set>

#include "coll_gpuar/algorithms/peers.h"
#include "test/catch.h"
#include "test/schedule/world.h"

namespace gpuar {
namespace {

using namespace symbolic;

std::vector<std::uint32_t> radices(const Algorithm& algorithm) {
  if (algorithm.has_radix) return {2, 4, 8};
  return {2};
}

Shape expected_shape(const Algorithm& algorithm, Association association) {
  if (association == Association::tree && algorithm.reproducible) return Shape::tree;
  const bool one_reduction = algorithm.name == "direct" || algorithm.name == "reduce_broadcast";
  if (one_reduction) return Shape::chain;
  return algorithm.keeps_rank_order ? Shape::rank_order : Shape::any;
}

std::string described(const Algorithm& algorithm, Rank size, const BuildOptions& options) {
  return std::string(algorithm.name) + " radix " + std::to_string(options.radix) + ", " +
         std::to_string(size) + " ranks, " + std::to_string(options.builder.min_slots) +
         " slots, " + (options.builder.association == Association::tree ? "tree" : "chain");
}

void check_algorithm(const Algorithm& algorithm, Rank size, const BuildOptions& options,
                     std::initializer_list<InPlace> places) {
  const auto schedules = build_all(algorithm, size, options);
  const Shape shape = expected_shape(algorithm, options.builder.association);
  static std::uint64_t seed = 0;
  for (const InPlace in_place : places) {
    INFO(described(algorithm, size, options) << (in_place == InPlace::yes ? ", in place" : ""));
    REQUIRE(check(schedules, in_place, shape, ++seed).failure == "");
  }
}

void check_everywhere(const Algorithm& algorithm, Rank size,
                      std::initializer_list<std::uint32_t> slot_counts,
                      std::initializer_list<InPlace> places) {
  for (const std::uint32_t radix : radices(algorithm)) {
    for (const Association association : {Association::chain, Association::tree}) {
      for (const std::uint32_t slots : slot_counts) {
        check_algorithm(algorithm, size, {radix, {slots, association}}, places);
      }
    }
  }
}

TEST_CASE("every algorithm is an allreduce at 1 to 64 ranks", "[checker]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (Rank size = 1; size <= 64; ++size) {
      check_everywhere(algorithm, size, {1, 2, 4, 64}, {InPlace::no, InPlace::yes});
    }
  }
}

TEST_CASE("every algorithm is an allreduce at 127 and 128 ranks", "[checker]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank size : {127, 128}) {
      check_everywhere(algorithm, size, {1, 4}, {InPlace::no, InPlace::yes});
    }
  }
}

// Ring and direct have millions of steps here: in place, the stricter way, and one slot count.
TEST_CASE("every algorithm is an allreduce at 1000 ranks", "[checker][scale]") {
  for (const Algorithm& algorithm : algorithms()) {
    const Association association = algorithm.reproducible ? Association::tree : Association::chain;
    for (const std::uint32_t radix : radices(algorithm)) {
      check_algorithm(algorithm, 1000, {radix, {4, association}}, {InPlace::yes});
    }
  }
}

TEST_CASE("steps and bytes equal the closed formula", "[checker][scale]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (Rank size = 1; size <= 64; ++size) {
      for (const std::uint32_t radix : radices(algorithm)) {
        // Enough slots that no receive waits for one.
        const BuildOptions options{radix, {64, Association::chain}};
        const auto schedules = build_all(algorithm, size, options);
        Cost found;
        found.parts = schedules[0].chunks;
        found.rounds = check(schedules, InPlace::no, Shape::any, 1).rounds;
        found.messages = port_time(schedules, [](Span) { return 1; });
        found.wire = port_time(schedules, [](Span span) { return span.count; });
        for (const Schedule& schedule : schedules) {
          std::uint64_t sent = 0;
          std::uint64_t reduced = 0;
          for (const Step& step : schedule.steps) {
            if (step.verb == Verb::send) sent += step.span.count;
            if (step.verb == Verb::reduce) reduced += step.span.count;
          }
          found.sent = std::max(found.sent, sent);
          found.reduced = std::max(found.reduced, reduced);
        }
        const Cost formula = algorithm.cost(size, radix);
        INFO(described(algorithm, size, options));
        CHECK(found.rounds == formula.rounds);
        CHECK(found.parts == formula.parts);
        if (algorithm.name == "double_tree") {
          CHECK(formula.messages - found.messages <= 1);
          CHECK(formula.wire - found.wire <= 1);
          found.messages = formula.messages;
          found.wire = formula.wire;
        }
        // Ranks that are not folded run ahead and get into the way of folded ones; how much depends
        // on the order in which ports serve.
        const bool folds = size != power_of_two_below(size);
        const bool many_peers = algorithm.name == "recursive_doubling" && radix > 2;
        if (folds && (many_peers || algorithm.name == "rabenseifner")) {
          const std::uint64_t slack = many_peers ? formula.wire / 4 : formula.wire / 8;
          CHECK(found.messages >= formula.messages);
          CHECK(found.messages <= formula.messages + (many_peers ? slack : 0));
          CHECK(found.wire >= formula.wire);
          CHECK(found.wire <= formula.wire + slack);
        } else {
          CHECK(found.messages == formula.messages);
          CHECK(found.wire == formula.wire);
        }
        CHECK(found.sent == formula.sent);
        CHECK(found.reduced == formula.reduced);
      }
    }
  }
}

}  // namespace
}  // namespace gpuar
