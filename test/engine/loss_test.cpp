// Members that die or fall silent in the middle of a call: Engine::lose and what the watch asks.
#include <algorithm>
#include <random>
#include <set>

#include "test/catch.h"
#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

// A call on all ranks of which one, the last, dies after some rounds of progress.
struct Death {
  Death(Rank size, const CallOptions& options, MessageKind kind, std::uint64_t seed)
      : world(size, seed), options(options), calls(static_cast<std::size_t>(size)), dead(size - 1) {
    world.add_all_ranks();
    for (Rank rank = 0; rank < size; ++rank) world.bind(rank, call(rank), options, kind);
    for (Rank rank = 0; rank < size; ++rank) world.engine(rank).start(*call(rank).run);
  }
  Call& call(Rank rank) { return calls[static_cast<std::size_t>(rank)]; }
  void rounds(int count) { world.rounds(count); }
  void die() { world.world.kill(static_cast<std::uint32_t>(dead)); }
  bool survivors_ended() {
    return std::all_of(calls.begin(), calls.end() - 1,
                       [](const Call& call) { return call.finished == 1; });
  }
  // A survivor that got a result has the right one.
  std::size_t wrong() {
    std::size_t bad = 0;
    for (Rank rank = 0; rank < dead; ++rank) {
      if (call(rank).status == 0) bad += world.wrong(rank, call(rank), options);
    }
    return bad;
  }

  EngineWorld world;
  CallOptions options;
  std::vector<Call> calls;
  Rank dead;
};

}  // namespace

TEST_CASE("a rank that dies anywhere in a call: the others end, with an error or right",
          "[engine][loss]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::size_t errors = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const MessageKind kind : {MessageKind::call, MessageKind::persistent}) {
      for (int again = 0; again < 20; ++again) {
        CallOptions options;
        options.algorithm = &algorithm;
        options.count = 200;
        options.segment_bytes = 400;
        options.depth = 2;
        Death death(4, options, kind, random());
        const int rounds = std::uniform_int_distribution<>(0, 30)(random);
        INFO(algorithm.name << " after " << rounds);
        death.rounds(rounds);
        death.die();
        death.rounds(20);
        // One notices; the others are told by it, or notice later.
        const Rank first = std::uniform_int_distribution<>(0, death.dead - 1)(random);
        death.world.engine(first).lose(death.world.comm(first), death.dead, "it is gone");
        death.rounds(200);
        for (Rank rank = 0; rank < death.dead; ++rank)
          death.world.engine(rank).lose(death.world.comm(rank), death.dead, "it is gone");
        CHECK(death.world.drive([&] { return death.survivors_ended(); }));
        CHECK(death.wrong() == 0);
        errors += death.call(first).status != 0 ? 1 : 0;
      }
    }
  }
  CHECK(errors > 0);
}

TEST_CASE("after a loss nothing is sent to the lost, and its communicator stays broken",
          "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  options.count = 50;
  Death death(3, options, MessageKind::call, 1);
  death.die();
  death.world.engine(0).lose(death.world.comm(0), 2, "it is gone");
  CHECK(death.world.comm(0).status == Status::process_failed);
  CHECK(death.world.transports[0]->send(
            death.world.transports[2].get(),
            *[] {
              static TransportOp op;
              return &op;
            }(),
            nullptr, 0) == Status::unreachable);
  CHECK(death.world.drive([&] { return death.call(0).finished == 1; }));
  Call later;
  death.world.bind(0, later, options, MessageKind::call);
  death.world.engine(0).start(*later.run);
  CHECK(death.world.drive([&] { return later.finished == 1; }));
  CHECK(later.status != 0);
}

TEST_CASE("whoever is told that a process has failed, or that the program gave up, has that error",
          "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  options.count = 50;
  for (const Status why : {Status::process_failed, Status::revoked, Status::no_memory}) {
    Death death(3, options, MessageKind::call, 1);
    death.die();
    if (why == Status::process_failed) {
      death.world.engine(0).lose(death.world.comm(0), 2, "it is gone");
    } else {
      death.world.engine(0).abandon(death.world.comm(0), why, "for a reason");
    }
    CHECK(death.world.drive([&] { return death.world.comm(1).status != Status::ok; }));
    CHECK(death.world.comm(0).status == why);
    CHECK(death.world.comm(1).status == (why == Status::no_memory ? Status::aborted : why));
  }
}

TEST_CASE("a member that is given up though it lives is told, and gives this one up",
          "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  options.count = 50;
  Death death(3, options, MessageKind::call, 1);
  death.world.engine(0).part(death.world.comm(0), 2, "the connection broke");
  CHECK(death.world.drive([&] { return death.call(2).finished == 1; }));
  CHECK(death.call(2).status != 0);
  CHECK(death.world.transports[2]->broken.count(0) == 1);
  CHECK(death.world.transports[1]->broken.empty());
}

TEST_CASE("an unreachable rank is left to who watches, if somebody does", "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  options.count = 50;
  Death death(3, options, MessageKind::call, 1);
  death.world.comm(0).watched = true;
  death.world.transports[0]->lose(death.world.transports[1].get());
  Call later;
  death.world.bind(0, later, options, MessageKind::call);
  death.world.engine(0).start(*later.run);
  death.rounds(50);
  CHECK(later.finished == 0);
  CHECK(death.world.transports[0]->broken.count(1) == 1);
  death.world.engine(0).lose(death.world.comm(0), 1, "it is gone");
  CHECK(death.world.drive([&] { return later.finished == 1; }));
  CHECK(later.status != 0);
}

TEST_CASE("an unreachable rank is an error at once where nobody watches", "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  options.count = 50;
  Death death(3, options, MessageKind::call, 1);
  death.world.transports[0]->lose(death.world.transports[1].get());
  Call later;
  death.world.bind(0, later, options, MessageKind::call);
  death.world.engine(0).start(*later.run);
  CHECK(death.world.comm(0).status == Status::unreachable);
  CHECK(death.world.transports[0]->broken.empty());
  CHECK(death.world.drive([&] { return later.finished == 1; }));
  CHECK(later.status == static_cast<int>(Status::unreachable));
}

TEST_CASE("a call that nothing moves stands, and says for whom it waits", "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  options.count = 50;
  Death death(3, options, MessageKind::call, 1);
  death.die();
  death.rounds(1000);
  const Run& run = *death.call(0).run;
  auto& engine = death.world.engine(0);
  const std::uint64_t standing = engine.standing_of(run);
  death.rounds(100);
  CHECK(engine.standing_of(run) == standing);
  std::set<Rank> ranks;
  engine.for_each_awaited(run, [&](Rank rank) { ranks.insert(rank); });
  CHECK(ranks.contains(2));  // its neighbour before it: what it should receive comes from there
}

TEST_CASE(
    "a persistent call that begins again, or has one more message under way, stands elsewhere",
    "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  Death death(3, options, MessageKind::persistent, 1);
  Run& run = *death.call(0).run;
  const std::uint64_t standing = death.world.engine(0).standing_of(run);
  ++run.round;
  CHECK(death.world.engine(0).standing_of(run) != standing);
  --run.round;
  CHECK(death.world.engine(0).standing_of(run) == standing);
  ++run.in_flight;
  CHECK(death.world.engine(0).standing_of(run) != standing);
  --run.in_flight;
}

TEST_CASE("a call stands elsewhere after anything has moved", "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  options.count = 50;
  Death death(3, options, MessageKind::call, 1);
  std::set<std::uint64_t> places;
  death.world.drive([&] {
    if (death.call(0).finished == 0)
      places.insert(death.world.engine(0).standing_of(*death.call(0).run));
    return death.call(0).finished == 1;
  });
  CHECK(places.size() > 2);
}

TEST_CASE("after a failure nothing more of the call is sent", "[engine][loss]") {
  CallOptions options;
  options.algorithm = find_algorithm("direct");
  options.count = 50;
  EngineWorld world(4, 1, {.inline_completion = 0});
  world.add_all_ranks();
  world.transports[0]->lose(world.transports[2].get());
  Call call;
  world.bind(0, call, options, MessageKind::call);
  world.engine(0).start(*call.run);  // to rank 1, to rank 2, to rank 3
  CHECK(world.comm(0).status == Status::unreachable);
  CHECK(world.world.rank(0).bytes_sent() == options.count * sizeof(Affine));
}
