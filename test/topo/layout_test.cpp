#include "topo/layout.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "test/catch.h"
#include "test/topo/places.h"

using namespace gpuar;
using namespace gpuar::test;

TEST_CASE("pretended nodes and packages are numbers or lists", "[layout]") {
  CHECK(parse_pretended("") == Pretended{});
  CHECK(parse_pretended("2") == Pretended{{2}, {}});
  CHECK(parse_pretended("1,3") == Pretended{{1, 3}, {}});
  CHECK(parse_pretended("2147483647") == Pretended{{2147483647}, {}});
  CHECK(parse_pretended("4/2") == Pretended{{4}, {2}});
  CHECK(parse_pretended("/1,3") == Pretended{{}, {1, 3}});
  for (const char* bad : {"0",
                          "-1",
                          ",",
                          "1,",
                          ",1",
                          "1,,2",
                          "two",
                          "2 ",
                          " 2",
                          "1;3",
                          "1,0",
                          "2147483648",
                          "99999999999999999999",
                          "+2",
                          "1.5",
                          "/",
                          "4/",
                          "4/0",
                          "4/2/1",
                          "4//2",
                          "/2,"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_pretended(bad).has_value());
  }
}

TEST_CASE("nodes are hosts, numbered by their first rank", "[layout]") {
  const Layout layout = layout_of(on_hosts({7, 3, 7, 9, 3, 7}));
  CHECK(layout.node_of == Nodes{0, 1, 0, 2, 1, 0});
  CHECK(layout.nodes == 3);
  CHECK(layout.largest_node == 3);
  CHECK(layout.smallest_node == 1);
  CHECK_FALSE(layout.oversubscribed);
}

TEST_CASE("the cache of a rank is the least share on any host", "[layout]") {
  auto places = on_hosts({1, 2, 1, 2, 2});
  CHECK(layout_of(places).cache_per_rank == 0);
  const auto give = [&places](std::uint64_t host, std::int32_t kib) {
    for (ProcessPlace& place : places) {
      if (place.host_id == host) place.host_cache_kib = kib;
    }
  };
  give(1, 4096);
  CHECK(layout_of(places).cache_per_rank == 0);  // unknown on the other
  give(2, 32768);
  CHECK(layout_of(places).cache_per_rank == std::uint64_t{2048} << 10);
  give(2, 3072);
  CHECK(layout_of(places).cache_per_rank == std::uint64_t{1024} << 10);
  CHECK(layout_of({}).cache_per_rank == 0);
}

TEST_CASE("pretend nodes split the ranks of one host", "[layout]") {
  const auto five = on_hosts({1, 1, 1, 1, 1});
  CHECK(layout_of(five, {{2}, {}}).node_of == Nodes{0, 0, 1, 1, 2});
  CHECK(layout_of(five, {{1, 3}, {}}).node_of == Nodes{0, 1, 1, 1, 2});
  CHECK(layout_of(five, {{9}, {}}).node_of == Nodes{0, 0, 0, 0, 0});
  CHECK(layout_of(five, {{1, 3}, {}}).largest_node == 3);
  CHECK(layout_of(five, {{1, 3}, {}}).smallest_node == 1);
  // Sizes start again for every host.
  CHECK(layout_of(on_hosts({1, 2, 1, 2, 1, 2}), {{1, 2}, {}}).node_of == Nodes{0, 1, 2, 3, 2, 3});
}

TEST_CASE("pretend packages split the ranks of each node", "[layout]") {
  const Layout layout = layout_of(on_hosts({1, 1, 2, 1, 2, 1}), {{}, {2}});
  CHECK(layout.node_of == Nodes{0, 0, 1, 0, 1, 0});
  CHECK(layout.packages.of == Nodes{0, 0, 1, 2, 1, 2});
  const Layout of_nodes = layout_of(on_hosts({1, 1, 1, 1, 1}), {{4}, {1, 3}});
  CHECK(of_nodes.node_of == Nodes{0, 0, 0, 0, 1});
  CHECK(of_nodes.packages.of == Nodes{0, 1, 1, 1, 2});
}

TEST_CASE("nodes are divided by packages, or by NUMA domains of one package", "[layout]") {
  // Two packages of two domains of four cores on each host.
  const auto on_cores = [](const std::vector<std::int32_t>& cores) {
    std::vector<ProcessPlace> places;
    for (const std::int32_t core : cores) places.push_back(bound_to(1, core));
    return layout_of(places);
  };
  const auto parts = [](const Layout& layout) {
    const Partition* const found = parts_of(layout);
    return found == nullptr ? Nodes{} : found->of;
  };
  CHECK(parts(on_cores({0, 1, 4, 5, 8, 9})) == Nodes{0, 0, 0, 0, 1, 1});  // packages
  CHECK(parts(on_cores({0, 1, 4, 5})) == Nodes{0, 0, 1, 1});              // domains of one
  CHECK(parts(on_cores({0, 1, 2, 3})).empty());                           // one domain
  CHECK(parts(on_cores({0, 8})).empty());                                 // a rank on each
  CHECK(parts(layout_of(on_hosts({1, 1, 1, 1}))).empty());                // not bound
}

TEST_CASE("layouts of any members keep their promises", "[layout]") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::size_t ranks = round % 30 == 0 ? 4096 : 1 + random() % 64;
    std::vector<std::uint64_t> hosts(ranks);
    const auto kinds = 1 + random() % 8;
    for (auto& host : hosts) host = random() % kinds;
    Pretended::Sizes pretend(random() % 4);
    for (auto& size : pretend) size = static_cast<std::int32_t>(1 + random() % 5);
    const auto places = on_hosts(hosts);
    const Layout layout = layout_of(places, {pretend, {}});
    CAPTURE(round, ranks, kinds, pretend);

    REQUIRE(layout.node_of.size() == ranks);
    std::map<std::int32_t, std::vector<std::size_t>> members;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::int32_t node = layout.node_of[rank];
      REQUIRE(node >= 0);
      REQUIRE(node <= static_cast<std::int32_t>(members.size()));  // the next new one, or known
      members[node].push_back(rank);
    }
    REQUIRE(members.size() == static_cast<std::size_t>(layout.nodes));

    std::int32_t largest = 0;
    std::int32_t smallest = INT32_MAX;
    std::map<std::uint64_t, std::size_t> blocks;  // nodes seen so far, by host
    for (const auto& [node, ranks_of] : members) {
      const std::uint64_t host = hosts[ranks_of.front()];
      for (const std::size_t rank : ranks_of) REQUIRE(hosts[rank] == host);  // never across hosts
      const auto size = static_cast<std::int32_t>(ranks_of.size());
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
      const std::size_t block = blocks[host]++;
      if (pretend.empty()) {
        REQUIRE(block == 0);
        continue;
      }
      const bool last =
          std::none_of(hosts.begin() + static_cast<std::ptrdiff_t>(ranks_of.back()) + 1,
                       hosts.end(), [&](auto h) { return h == host; });
      const std::int32_t wanted = pretend[block % pretend.size()];
      REQUIRE((last ? size <= wanted : size == wanted));
    }
    REQUIRE(layout.largest_node == largest);
    REQUIRE(layout.smallest_node == smallest);
  }
}

TEST_CASE("the layout depends on who shares a host, not on the hosts' ids", "[layout]") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> hosts(1 + random() % 40);
    for (auto& host : hosts) host = random() % 6;
    auto renamed = hosts;
    for (auto& host : renamed) host = (host + 1) * 0x9e3779b97f4a7c15;
    REQUIRE(layout_of(on_hosts(hosts), {{2, 1}, {1, 2}}) ==
            layout_of(on_hosts(renamed), {{2, 1}, {1, 2}}));
  }
}

TEST_CASE("no members, no nodes", "[layout]") {
  CHECK(layout_of({}) == Layout{});
  CHECK(layout_of({}, {{2}, {1}}) == Layout{});
}

TEST_CASE("more ranks than hardware threads are oversubscribed", "[layout]") {
  const auto ranks = [](std::size_t count, const ProcessPlace& place) {
    return std::vector<ProcessPlace>(count, place);
  };
  const auto together = [](std::vector<ProcessPlace> a, const std::vector<ProcessPlace>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  // Of the whole host, none bound.
  CHECK_FALSE(layout_of(ranks(4, {"a", 1, 0, 0, -1, 4, 4})).oversubscribed);
  CHECK(layout_of(ranks(5, {"a", 1, 0, 0, -1, 4, 4})).oversubscribed);
  // One crowded host is enough.
  CHECK(layout_of(together(ranks(1, {"a", 1, 0, 0, -1, 4, 4}), ranks(3, {"b", 2, 0, 0, -1, 2, 2})))
            .oversubscribed);
  // Bound to two threads: three ranks are too many, whatever the host has.
  CHECK(layout_of(ranks(3, {"a", 1, 0, 0, 0, 2, 64})).oversubscribed);
  // Different bindings of equal size do not share.
  CHECK_FALSE(
      layout_of(together(ranks(2, {"a", 1, 0, 0, 0, 2, 64}), ranks(2, {"a", 1, 0, 0, 2, 2, 64})))
          .oversubscribed);
  // What is not known is not held against anybody.
  CHECK_FALSE(layout_of(ranks(100, {"a", 1, -1, -1, -1, -1, -1})).oversubscribed);
}

TEST_CASE("hosts that are one machine share its hardware threads", "[layout]") {
  const auto on = [](std::uint64_t machine, std::uint64_t host, std::size_t count) {
    return std::vector<ProcessPlace>(count, {"a", machine << 32 | host, 0, 0, -1, 4, 4});
  };
  const auto both = [](std::vector<ProcessPlace> a, const std::vector<ProcessPlace>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return layout_of(a).shared_threads;
  };
  CHECK(both(on(1, 1, 3), on(1, 2, 3)) == 4);
  CHECK(both(on(1, 1, 2), on(1, 2, 2)) == 0);  // enough for each
  CHECK(both(on(1, 1, 3), on(2, 1, 3)) == 0);  // two machines
  CHECK(layout_of(std::vector<ProcessPlace>(9, {"a", 1, -1, -1, -1, -1, -1})).shared_threads == 0);
}
