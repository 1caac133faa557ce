// Messages that come before anybody here knows their communicator, and peers that cannot be
// reached.
#include <algorithm>

#include "test/catch.h"
#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

TEST_CASE("an early message waits for its communicator, while others are made", "[engine]") {
  EngineWorld world(2, 1);
  std::vector<Call> calls(2);
  const CallOptions options = basic("direct", 20);
  world.add(1);
  world.bind(1, calls[1], options, MessageKind::call);
  world.engine(1).start(*calls[1].run);
  world.rounds(1000);
  CHECK(world.engine(0).outstanding() == 1);
  Comm another;
  another.id = {8, 12};
  another.size = 1;
  world.engine(0).add(another);
  CHECK(world.engine(0).outstanding() == 1);
  world.add(0);
  world.bind(0, calls[0], options, MessageKind::call);
  world.engine(0).start(*calls[0].run);
  REQUIRE(world.drive([&] { return calls[0].finished == 1 && calls[1].finished == 1; }));
  for (const Rank rank : {0, 1}) {
    CHECK(world.wrong(rank, calls[static_cast<std::size_t>(rank)], options) == 0);
    CHECK(world.engine(rank).outstanding() == 0);
  }
  world.engine(0).remove(another);
}

TEST_CASE("a peer that cannot be reached: the call ends with an error", "[engine]") {
  for (const Algorithm& algorithm : algorithms()) {
    INFO(algorithm.name);
    EngineWorld world(3, 1);
    world.add_all_ranks();
    std::vector<Call> calls(3);
    CallOptions options;
    options.algorithm = &algorithm;
    options.count = 20;
    world.comm(0).peers[1] = world.comm(0).peers[2] = nullptr;
    for (const Rank rank : {0, 1, 2}) {
      Call& call = calls[static_cast<std::size_t>(rank)];
      world.bind(rank, call, options, MessageKind::call);
      world.engine(rank).start(*call.run);
    }
    world.rounds(1000);
    CHECK(calls[0].finished == 1);
    CHECK(calls[0].status != 0);
    CHECK(world.comm(0).status != Status::ok);
    for (const Rank rank : {1, 2}) {
      if (calls[static_cast<std::size_t>(rank)].finished == 0)
        world.engine(rank).abandon(world.comm(rank), Status::failed, "a test");
    }
    CHECK(world.drive([&] {
      return std::all_of(calls.begin(), calls.end(), [](const Call& c) { return c.finished == 1; });
    }));
  }
}
