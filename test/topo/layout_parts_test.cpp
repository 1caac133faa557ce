// The parts of nodes, GPUs, rails and the ring of a layout.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test/catch.h"
#include "test/topo/places.h"
#include "topo/layout.h"

using namespace gpuar;
using namespace gpuar::test;

TEST_CASE("packages and NUMA domains divide the nodes", "[layout]") {
  std::vector<ProcessPlace> places;
  for (const std::int32_t core : {0, 4, 8, 12}) {
    for (const std::uint64_t host : {5, 6}) places.push_back(bound_to(host, core));
  }
  const Layout layout = layout_of(places);
  CHECK(layout.packages.of == Nodes{0, 1, 0, 1, 2, 3, 2, 3});
  CHECK(layout.packages.largest == 2);
  CHECK(layout.packages.even());
  CHECK(layout.numas.count == 8);
  CHECK(layout.leaders == Nodes{0, 1});
  CHECK(layout.rails.of == Nodes{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(layout.ring == Nodes{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(layout.gpu_of == Nodes{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(layout.most_ranks_per_gpu == 1);
  CHECK(layout.gpus_known);

  places[2].package = places[2].numa = -1;  // one unbound rank: its node is a whole
  CHECK(layout_of(places).packages.of == Nodes{0, 1, 0, 1, 0, 2, 0, 2});
  CHECK_FALSE(layout_of(places).packages.even());
  CHECK(layout_of(places).numas.count == 5);
}

TEST_CASE("GPUs that ranks share", "[layout]") {
  std::vector<ProcessPlace> places;
  for (const std::int32_t core : {0, 1, 2, 4}) places.push_back(bound_to(1, core));
  places.push_back(bound_to(2, 0));
  Layout layout = layout_of(places);
  CHECK(layout.gpu_of == Nodes{0, 0, 0, 1, 2});
  CHECK(layout.gpus == 3);
  CHECK(layout.most_ranks_per_gpu == 3);
  CHECK(layout.rails.of == Nodes{0, 0, 0, 1, 0});
  CHECK(layout.rails.largest == 4);

  places[1].gpu = 0;  // not known of everybody: rails go by place among the ranks
  layout = layout_of(places);
  CHECK(layout.gpu_of == Nodes{0, -1, 0, 1, 2});
  CHECK_FALSE(layout.gpus_known);
  CHECK(layout.rails.of == Nodes{0, 1, 2, 3, 0});
  CHECK(layout_of(on_hosts({1, 1})).gpus == 0);
}

TEST_CASE("a ring in order of rank stays so", "[layout]") {
  std::vector<ProcessPlace> places;
  places.reserve(32);
  for (std::int32_t rank = 0; rank < 32; ++rank) {
    places.push_back(bound_to(static_cast<std::uint64_t>(rank) / 16, rank % 16));
  }
  const Layout layout = layout_of(places);
  CHECK(std::is_sorted(layout.ring.begin(), layout.ring.end()));
  std::swap(places[1], places[9]);
  CHECK(layout_of(places).ring[1] == 9);
}

TEST_CASE("a layout in words", "[layout]") {
  const auto words = [](const std::vector<ProcessPlace>& places) {
    std::vector<const ProcessPlace*> members;
    members.reserve(places.size());
    for (const ProcessPlace& place : places) members.push_back(&place);
    return describe(make_layout(members), members);
  };
  CHECK(words(on_hosts({7, 7, 7, 9})) == "4 ranks on 2 nodes, 1 to 3 on each (host7, host9)");
  CHECK(words({bound_to(3, 0), bound_to(3, 8), bound_to(3, 1)}) ==
        "3 ranks on 1 node, 3 on each (host3); 2 packages, 2 NUMA domains; 2 GPUs, at most 2 of "
        "the ranks on one; ring by place");
  CHECK(words(on_hosts({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})) ==
        "10 ranks on 10 nodes, 1 on each (host0, host1, host2, host3, host4, host5, host6, host7 "
        "and 2 more)");
}

namespace {

// Any ranks on any cores; some not bound, some without a known GPU.
std::vector<ProcessPlace> any_places(std::mt19937& random, std::size_t ranks) {
  const auto one_in = [&random](unsigned n) { return random() % n == 0; };
  const std::uint64_t hosts = 1 + random() % (ranks / 4 + 1);
  const bool some_unbound = one_in(2);
  const bool some_without_gpu = one_in(2);
  std::vector<ProcessPlace> places;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::uint64_t host = one_in(4) ? random() % hosts : rank * hosts / ranks;
    places.push_back(bound_to(host, static_cast<std::int32_t>(random() % 16)));
    if (some_unbound && one_in(8)) places.back().numa = -1;
    if (some_unbound && one_in(16)) places.back().package = -1;
    if (some_without_gpu && one_in(16)) places.back().gpu = 0;
  }
  return places;
}

// How often neighbours in the order belong to different groups.
std::int32_t changes(const Nodes& order, const Nodes& group) {
  std::int32_t count = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    count +=
        group[static_cast<std::size_t>(order[i])] != group[static_cast<std::size_t>(order[i - 1])]
            ? 1
            : 0;
  }
  return count;
}

void check_partition(const Partition& partition, std::size_t ranks) {
  REQUIRE(partition.of.size() == ranks);
  std::map<std::int32_t, std::int32_t> sizes;
  for (const std::int32_t group : partition.of) ++sizes[group];
  REQUIRE(static_cast<std::int32_t>(sizes.size()) == partition.count);
  REQUIRE(sizes.begin()->first == 0);
  REQUIRE(sizes.rbegin()->first == partition.count - 1);
  std::int32_t largest = 0;
  std::int32_t smallest = INT32_MAX;
  for (const auto& [group, size] : sizes) {
    largest = std::max(largest, size);
    smallest = std::min(smallest, size);
  }
  REQUIRE(partition.largest == largest);
  REQUIRE(partition.smallest == smallest);
  REQUIRE(partition.even() == (largest == smallest));
}

// That `inner` divides each group of `outer` by the index, or leaves it whole if it is unknown of a
// rank.
void check_division(const Nodes& outer, const Partition& inner,
                    const std::vector<ProcessPlace>& places, std::int32_t ProcessPlace::*index) {
  check_partition(inner, places.size());
  std::map<std::int32_t, std::map<std::int32_t, std::set<std::int32_t>>> parts;
  std::int32_t next = 0;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    REQUIRE(inner.of[rank] <= next);  // numbered by first rank
    next = std::max(next, inner.of[rank] + 1);
    parts[outer[rank]][places[rank].*index].insert(inner.of[rank]);
  }
  std::set<std::int32_t> used;
  for (const auto& [group, by_index] : parts) {
    std::set<std::int32_t> together;
    for (const auto& [value, numbers] : by_index) {
      REQUIRE(numbers.size() == 1);
      together.insert(*numbers.begin());
    }
    REQUIRE(together.size() == (by_index.count(-1) > 0 ? 1 : by_index.size()));
    for (const std::int32_t number : together) REQUIRE(used.insert(number).second);
  }
}

void check_rails(const Layout& layout, const std::vector<ProcessPlace>& places) {
  check_partition(layout.rails, places.size());
  std::map<std::int32_t, std::int32_t> by_gpu;   // rail, by the GPU's number
  std::map<std::int32_t, std::int32_t> by_node;  // ranks seen
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const std::int32_t rail = layout.rails.of[rank];
    if (layout.gpus_known) {
      REQUIRE(by_gpu.try_emplace(places[rank].gpu_index, rail).first->second == rail);
    } else {
      REQUIRE(rail == by_node[layout.node_of[rank]]++);
    }
  }
  std::int32_t expected = 0;
  for (const auto& [index, rail] : by_gpu) REQUIRE(rail == expected++);
}

void check_ring(const Layout& layout, const std::vector<ProcessPlace>& places) {
  Nodes ranks = layout.ring;
  std::sort(ranks.begin(), ranks.end());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    REQUIRE(ranks[rank] == static_cast<std::int32_t>(rank));
  }
  // As seldom as groups allow.
  REQUIRE(changes(layout.ring, layout.node_of) == layout.nodes - 1);
  REQUIRE(changes(layout.ring, layout.packages.of) == layout.packages.count - 1);
  REQUIRE(changes(layout.ring, layout.numas.of) == layout.numas.count - 1);
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int32_t> gpus;  // of a NUMA domain
  Nodes gpu_in_numa;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto next = static_cast<std::int32_t>(gpus.size());
    gpu_in_numa.push_back(
        gpus.try_emplace({layout.numas.of[rank], places[rank].gpu}, next).first->second);
  }
  REQUIRE(changes(layout.ring, gpu_in_numa) == static_cast<std::int32_t>(gpus.size()) - 1);
}

}  // namespace

TEST_CASE("parts, rails and ring of any members keep their promises", "[layout]") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::size_t ranks = round % 50 == 0 ? 4096 : 1 + random() % 64;
    const auto places = any_places(random, ranks);
    Pretended::Sizes pretend(random() % 3);
    for (auto& size : pretend) size = static_cast<std::int32_t>(1 + random() % 5);
    CAPTURE(round, ranks, pretend);
    const Layout layout = layout_of(places, {pretend, {}});

    check_division(layout.node_of, layout.packages, places, &ProcessPlace::package);
    check_division(layout.packages.of, layout.numas, places, &ProcessPlace::numa);
    check_rails(layout, places);
    check_ring(layout, places);
    REQUIRE(layout.leaders.size() == static_cast<std::size_t>(layout.nodes));
    for (std::int32_t node = 0; node < layout.nodes; ++node) {
      const auto first = std::find(layout.node_of.begin(), layout.node_of.end(), node);
      REQUIRE(layout.leaders[static_cast<std::size_t>(node)] == first - layout.node_of.begin());
    }
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::int32_t> users;
    std::int32_t most = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      REQUIRE((layout.gpu_of[rank] < 0) == (places[rank].gpu == 0));
      if (places[rank].gpu == 0) continue;
      most = std::max(most, ++users[{places[rank].host_id, places[rank].gpu}]);
      const auto same = std::find(layout.gpu_of.begin(), layout.gpu_of.end(), layout.gpu_of[rank]);
      const ProcessPlace& first = places[static_cast<std::size_t>(same - layout.gpu_of.begin())];
      REQUIRE(std::pair(first.host_id, first.gpu) ==
              std::pair(places[rank].host_id, places[rank].gpu));
    }
    REQUIRE(layout.gpus == static_cast<std::int32_t>(users.size()));
    REQUIRE(layout.most_ranks_per_gpu == most);
  }
}
