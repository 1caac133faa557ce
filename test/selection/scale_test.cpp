// What must hold at any number of ranks: plans that are small and quick to build, and schedules of
// all ranks that fit together wherever they sit.
#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "coll_gpuar/engine/program.h"
#include "coll_gpuar/selection/programs.h"
#include "test/catch.h"
#include "test/selection/shapes.h"
#include "test/topo/places.h"

namespace gpuar {
namespace {

using namespace test;

constexpr std::size_t plan_limit = std::size_t{4} << 20;  // bytes

TEST_CASE("an algorithm's limit keeps its plan below 4 MiB", "[scale]") {
  for (const Algorithm& algorithm : algorithms()) {
    const Rank ranks = std::min<Rank>(algorithm.max_size, 65536);
    BuildOptions options;
    options.builder.min_slots = slots_for(ranks);
    const Program program(build(algorithm, 0, ranks, options));
    INFO(algorithm.name << ", " << ranks << " ranks");
    CHECK(program.bytes() < plan_limit);
  }
}

// Seconds that this process computed, the least of some tries.
template <class Work>
double seconds(Work work) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    work();
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

TEST_CASE("at 65,536 ranks what is chosen is small and built in 50 ms", "[scale]") {
  for (const auto& [count, each] :
       std::vector<std::pair<Rank, Rank>>{{8192, 8}, {1024, 64}, {65536, 1}, {16384, 4}}) {
    const Level nodes = equal_nodes(count, each);
    for (const Machine& machine : {Machine{}, device_machine()}) {
      for (std::uint64_t bytes = 8; bytes <= std::uint64_t{1} << 33; bytes *= 32) {
        const Choice choice = select(shape_of(nodes, bytes), {}, machine);
        for (const Rank rank : {0, 32768, 65535}) {
          INFO(describe(choice) << ", rank " << rank << " on " << count << " x " << each << ", "
                                << bytes << " bytes");
          std::size_t size = 0;
          CHECK(seconds([&] {
                  size = Program(schedule_of(choice, rank, {&nodes, 1})).bytes();
                }) < 0.05);
          CHECK(size < plan_limit);
        }
      }
    }
  }
}

// Nodes of any sizes and up to 4,096 ranks, now and then dealt out anyhow.
std::vector<std::uint64_t> any_hosts(std::mt19937& random) {
  const std::size_t ranks = 1 + random() % (std::size_t{1} << (random() % 13));
  const std::size_t most = 1 + random() % std::min<std::size_t>(ranks, 64);
  const bool even = random() % 2 == 0;
  std::vector<std::uint64_t> hosts;
  for (std::uint64_t host = 0; hosts.size() < ranks; ++host) {
    const std::size_t here = even ? most : 1 + random() % most;
    hosts.insert(hosts.end(), std::min(here, ranks - hosts.size()), host);
  }
  if (random() % 4 == 0) std::shuffle(hosts.begin(), hosts.end(), random);
  return hosts;
}

// Every message that is sent is expected, with the same chunks, and the other way round.
void check_fits(const Programs& programs) {
  std::size_t sends = 0;
  std::size_t receives = 0;
  std::vector<std::vector<bool>> served;
  for (const Programs::Program& program : programs.all) {
    served.emplace_back(program.schedule.steps.size());
    receives += program.schedule.recv_steps.size();
  }
  for (const Programs::Program& program : programs.all) {
    for (std::size_t i = 0; i < program.schedule.steps.size(); ++i) {
      const Step& step = program.schedule.steps[i];
      if (step.verb != Verb::send) continue;
      const Receiver& to = program.receivers[i];
      REQUIRE(programs.all[to.program].schedule.rank == step.peer);
      REQUIRE(programs.all[to.program].schedule.steps[to.step].span == step.span);
      REQUIRE_FALSE(served[to.program][to.step]);
      served[to.program][to.step] = true;
      ++sends;
    }
  }
  REQUIRE(sends == receives);
}

TEST_CASE("up to 4,096 ranks on nodes of any shape choose alike, and their schedules fit",
          "[scale]") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    auto places = on_hosts(any_hosts(random));
    const Level nodes = layout_of(places).node_of;
    CallShape shape = shape_of(nodes, std::uint64_t{8} << (random() % 28));
    shape.commutative = random() % 4 != 0;
    shape.reproducible = random() % 4 == 0;
    const Machine machine = random() % 2 == 0 ? Machine{} : device_machine();
    const Choice choice = select(shape, {}, machine);
    CAPTURE(round, nodes.size(), shape.bytes, describe(choice));
    // What hosts are called does not matter.
    for (ProcessPlace& place : places) place.host_id = ~place.host_id;
    REQUIRE(layout_of(places).node_of == nodes);
    const Programs programs = all_programs_of(choice, {&nodes, 1});
    check_fits(programs);
  }
}

}  // namespace
}  // namespace gpuar
