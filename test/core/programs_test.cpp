// The schedules that the communicators of one process share.
#include "coll_gpuar/process.h"
#include "test/catch.h"

namespace {

using gpuar::Choice;
using gpuar::Level;

class Core {
 public:
  gpuar_comm comm(const Level& nodes) {
    gpuar_comm comm;
    comm.core = &core_;
    comm.size = static_cast<gpuar::Rank>(nodes.size());
    comm.nodes = &*core_.layouts.insert(nodes).first;
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
  const gpuar_comm pairs = core.comm({0, 0, 1, 1});
  const gpuar_comm pairs_again = core.comm({0, 0, 1, 1});
  const gpuar_comm alone = core.comm({0, 1, 1, 1});
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

}  // namespace
