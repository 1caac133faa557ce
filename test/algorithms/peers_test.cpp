#include "coll_gpuar/algorithms/peers.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"
#include "test/catch.h"

namespace gpuar {
namespace {

constexpr Rank most = 256;

TEST_CASE("a ring closes, holds every position and runs both ways", "[peers]") {
  for (Rank size = 1; size <= most; ++size) {
    std::vector<int> seen(static_cast<std::size_t>(size));
    Rank at = 0;
    for (Rank step = 0; step < size; ++step) {
      ++seen[static_cast<std::size_t>(at)];
      const Rank next = ring_next(at, size);
      REQUIRE(ring_previous(next, size) == at);
      REQUIRE(ring_shift(at, 1 - size, size) == next);
      REQUIRE(ring_shift(at, size, size) == at);
      at = next;
    }
    REQUIRE(at == 0);
    REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}

TEST_CASE("folding keeps order and leaves a power of two", "[peers]") {
  for (Rank size = 1; size <= most; ++size) {
    const Fold fold(size);
    REQUIRE((fold.leaves & (fold.leaves - 1)) == 0);
    REQUIRE(fold.leaves <= size);
    REQUIRE(fold.leaves * 2 > size);
    Rank extras = 0;
    for (Rank position = 0; position < size; ++position) {
      if (position > 0) REQUIRE(fold.leaf(position) >= fold.leaf(position - 1));
      if (fold.is_extra(position)) {
        ++extras;
        REQUIRE(fold.has_extra(position - 1));
        REQUIRE(fold.leaf(position) == fold.leaf(position - 1));
      } else {
        REQUIRE(fold.position(fold.leaf(position)) == position);
      }
    }
    REQUIRE(extras == fold.pairs);
    REQUIRE(extras + fold.leaves == size);
  }
}

// Depth by following parents; children are checked against parents on the way.
template <class NodeOf>
Rank depth_of_tree(Rank size, NodeOf node_of) {
  Rank deepest = 0;
  for (Rank position = 0; position < size; ++position) {
    Rank depth = 0;
    for (Rank at = position; node_of(at).parent >= 0; at = node_of(at).parent) {
      const auto siblings = node_of(node_of(at).parent).children;
      REQUIRE(std::count(siblings.begin(), siblings.end(), at) == 1);
      REQUIRE(++depth < size);
    }
    for (const Rank child : node_of(position).children) REQUIRE(node_of(child).parent == position);
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

TEST_CASE("two binary trees: leaves of one are inner nodes of the other, both are shallow",
          "[peers]") {
  for (Rank size = 1; size <= most; ++size) {
    const auto even = [size](Rank position) { return even_leaves_node(position, size); };
    const auto odd = [size](Rank position) { return odd_leaves_node(position, size); };
    Rank levels = 0;
    while ((Rank{1} << levels) < size) ++levels;
    REQUIRE(depth_of_tree(size, even) <= levels);
    REQUIRE(depth_of_tree(size, odd) == levels);
    for (Rank position = 0; position < size; ++position) {
      REQUIRE(even(position).children.size() <= 2);
      REQUIRE(odd(position).children.size() <= 2);
      REQUIRE(even(position).children.empty() == (position % 2 == 0));
      REQUIRE(odd(position).children.empty() == (position % 2 == 1 || size == 1));
    }
  }
}

TEST_CASE("doubling partners are mutual and join neighbouring blocks", "[peers]") {
  for (Rank size = 2; size <= most; size *= 2) {
    for (Rank distance = 1; distance < size; distance *= 2) {
      for (Rank leaf = 0; leaf < size; ++leaf) {
        const Rank peer = doubling_peer(leaf, distance);
        REQUIRE(peer >= 0);
        REQUIRE(peer < size);
        REQUIRE(doubling_peer(peer, distance) == leaf);
        REQUIRE(leaf / (2 * distance) == peer / (2 * distance));
        REQUIRE(leaf / distance != peer / distance);
      }
    }
  }
}

// The last position of the subtree, which must be a run that begins with its root.
Rank subtree_end(Rank root, Rank leaves, Rank radix) {
  Rank end = root + 1;
  for (const Rank child : knomial_node(root, leaves, radix).children) {
    REQUIRE(child == end);
    REQUIRE(knomial_node(child, leaves, radix).parent == root);
    end = subtree_end(child, leaves, radix);
  }
  return end;
}

TEST_CASE("a k-nomial tree reaches everyone once, in runs of positions", "[peers]") {
  for (Rank leaves = 1; leaves <= most; leaves *= 2) {
    for (const Rank radix : {2, 4, 8, 16, 1 << 30}) {
      REQUIRE(knomial_node(0, leaves, radix).parent == -1);
      REQUIRE(subtree_end(0, leaves, radix) == leaves);
    }
  }
}

TEST_CASE("levels are divided evenly", "[algorithms]") {
  for (const auto& [blocks, radix, width] : std::vector<std::array<Rank, 3>>{
           {1, 2, 1}, {8, 2, 2}, {8, 8, 8}, {8, 1 << 30, 8}, {16, 8, 4}, {8192, 32, 32}}) {
    CHECK(even_width(blocks, radix) == width);
  }
  CHECK(even_width(8192 / 32, 32) == 16);
}

TEST_CASE("algorithms are found by name, and their limits hold", "[algorithms]") {
  for (const Algorithm& algorithm : algorithms()) {
    CHECK(find_algorithm(algorithm.name) == &algorithm);
    CHECK(algorithm_names().find(algorithm.name) != std::string::npos);
  }
  CHECK(find_algorithm("auto") == nullptr);
  CHECK_THROWS_AS(build(*find_algorithm("ring"), 0, 40000), std::invalid_argument);
  CHECK_THROWS_AS(build(*find_algorithm("tree"), 0, 4, {3, {}}), std::invalid_argument);
  CHECK_THROWS_AS(build(*find_algorithm("tree"), 0, 4, {0, {}}), std::invalid_argument);
  const Algorithm& ring = *find_algorithm("ring");
  const Schedule largest = build(ring, 5, ring.max_size);
  CHECK(largest.receives.front().count == 2U * 8191);
}

// The same function over part of the communicator and part of the vector, as hierarchies use it.
TEST_CASE("an algorithm runs on a view", "[algorithms]") {
  const std::vector<Rank> ranks{1, 4, 7};
  Builder builder(4, 9, 12);
  ring(View{1, 3, {6, 6}, ranks}, builder);
  const Schedule schedule = std::move(builder).finish();
  for (const Step& step : schedule.steps) {
    if (step.verb == Verb::copy) {
      CHECK(step.span == Span{0, 6});
      continue;
    }
    CHECK(step.span.first >= 6);
    CHECK(step.span.first % 2 == 0);
    CHECK(step.span.count == 2);
    if (step.verb == Verb::send) CHECK(step.peer == 7);
    if (step.verb == Verb::recv) CHECK(step.peer == 1);
  }
}

}  // namespace
}  // namespace gpuar
