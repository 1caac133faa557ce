// The schedules that the communicators of one process share.
#include "coll_gpuar/process.h"
#include "test/catch.h"
#include "test/topo/places.h"

namespace {

using gpuar::Choice;
using gpuar::Layout;

// Ranks on these hosts.
Layout on(const std::vector<std::uint64_t>& hosts, const gpuar::Pretended& pretend = {}) {
  return gpuar::test::layout_of(gpuar::test::on_hosts(hosts), pretend);
}

class Core {
 public:
  gpuar_comm comm(const Layout& layout) {
    gpuar_comm comm;
    comm.core = &core_;
    comm.size = static_cast<gpuar::Rank>(layout.node_of.size());
    comm.placement = &*core_.placements.insert(gpuar::Placement(layout)).first;
    return comm;
  }
  std::shared_ptr<const gpuar::Program> program(const Choice& choice, const gpuar_comm& comm) {
    return core_.program(choice, comm);
  }

 private:
  gpuar_core core_;
};

Choice choice_of(const char* composition) {
  Choice choice;
  choice.composition = static_cast<std::uint32_t>(gpuar::find_composition(composition) -
                                                  gpuar::compositions().data());
  return choice;
}

TEST_CASE("communicators share a flat schedule, and a composed one if their nodes are alike",
          "[core]") {
  Core core;
  const gpuar_comm pairs = core.comm(on({0, 0, 1, 1}));
  const gpuar_comm pairs_again = core.comm(on({0, 0, 1, 1}));
  const gpuar_comm alone = core.comm(on({0, 1, 1, 1}));
  CHECK(core.program(choice_of("flat"), pairs) == core.program(choice_of("flat"), alone));
  for (const char* name : {"hierarchy", "leaders"}) {
    const Choice choice = choice_of(name);
    CHECK(core.program(choice, pairs) == core.program(choice, pairs_again));
    CHECK(core.program(choice, pairs) != core.program(choice, alone));
    CHECK(core.program(choice, pairs)->schedule.receives.size() !=
          core.program(choice, alone)->schedule.receives.size());
  }
  CHECK(core.program(choice_of("hierarchy"), pairs) != core.program(choice_of("leaders"), pairs));
}

const gpuar::Schedule& schedule(Core& core, const Choice& choice, const gpuar_comm& comm) {
  return core.program(choice, comm)->schedule;
}

std::set<gpuar::Rank> peers(const gpuar::Schedule& schedule) {
  std::set<gpuar::Rank> peers;
  for (const gpuar::Step& step : schedule.steps) {
    if (step.verb == gpuar::Verb::send) peers.insert(step.peer);
  }
  return peers;
}

TEST_CASE("what is composed over packages goes along them, with several nodes and with one",
          "[core]") {
  Core core;
  const gpuar_comm two_nodes = core.comm(on({0, 0, 0, 0, 1, 1, 1, 1}, {{}, {2}}));
  const gpuar_comm one_node = core.comm(on({0, 0, 0, 0}, {{}, {2}}));
  const auto of_0 = [&](const char* name, const gpuar_comm& comm) {
    return peers(schedule(core, choice_of(name), comm));
  };
  CHECK(of_0("hierarchy", two_nodes) == std::set<gpuar::Rank>{1, 2, 3, 4});
  CHECK(of_0("deep_hierarchy", two_nodes) == std::set<gpuar::Rank>{1, 2, 4});
  CHECK(of_0("deep_hierarchy", one_node) == std::set<gpuar::Rank>{1, 2});
  CHECK(of_0("deep_leaders", two_nodes) == std::set<gpuar::Rank>{1, 2, 4});
}

TEST_CASE("a ring goes from node to node no more often than it must", "[core]") {
  Core core;
  Choice choice = choice_of("flat");
  choice.algorithm =
      static_cast<std::uint32_t>(gpuar::find_algorithm("ring") - gpuar::algorithms().data());
  // Ranks dealt round: the ring is 0, 2, 4, 1, 3, 5.
  const gpuar_comm dealt = core.comm(on({0, 1, 0, 1, 0, 1}));
  CHECK(peers(schedule(core, choice, dealt)) == std::set<gpuar::Rank>{2});
  const gpuar_comm filled = core.comm(on({0, 0, 0, 1, 1, 1}));
  CHECK(peers(schedule(core, choice, filled)) == std::set<gpuar::Rank>{1});
  // Others keep the order of ranks.
  choice.algorithm = static_cast<std::uint32_t>(gpuar::find_algorithm("recursive_doubling") -
                                                gpuar::algorithms().data());
  CHECK(core.program(choice, dealt) == core.program(choice, filled));
}

}  // namespace
