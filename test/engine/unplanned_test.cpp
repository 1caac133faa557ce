// Calls that start before it is known what to plan them for: Engine::resume.
#include <algorithm>
#include <numeric>
#include <random>

#include "test/catch.h"
#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

// A call on every rank, bound without its plan, which comes later.
struct Unplanned {
  Unplanned(EngineWorld& world, Rank size, const CallOptions& options, MessageKind kind)
      : world(world), options(options), calls(static_cast<std::size_t>(size)), plans(calls.size()) {
    for (Rank rank = 0; rank < size; ++rank) {
      Call& mine = call(rank);
      mine.in_place = rank % 2 == 1;
      world.bind(rank, mine, options, kind);
      plans[static_cast<std::size_t>(rank)].swap(mine.run->plan);
      mine.run->device.stage = Stage::bound;
    }
  }
  Call& call(Rank rank) { return calls[static_cast<std::size_t>(rank)]; }
  void start(Rank rank) { world.engine(rank).start(*call(rank).run); }
  void plan(Rank rank) {
    call(rank).run->plan = plans[static_cast<std::size_t>(rank)];
    world.engine(rank).resume(*call(rank).run);
  }
  bool finished(std::size_t times = 1) const {
    return std::all_of(calls.begin(), calls.end(),
                       [times](const Call& call) { return call.finished == times; });
  }
  std::size_t wrong() {
    std::size_t bad = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      bad += world.wrong(static_cast<Rank>(i), calls[i], options) + (calls[i].status != 0 ? 1 : 0);
    }
    return bad;
  }

  EngineWorld& world;
  CallOptions options;
  std::vector<Call> calls;
  std::vector<std::shared_ptr<const Plan>> plans;
};

CallOptions shape(const char* algorithm, std::size_t count, std::uint32_t salt = 1) {
  CallOptions options;
  options.algorithm = find_algorithm(algorithm);
  options.count = count;
  options.segment_bytes = 40;
  options.depth = 2;
  options.salt = salt;
  return options;
}

std::vector<Rank> shuffled(Rank size, std::mt19937_64& random) {
  std::vector<Rank> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  return ranks;
}

}  // namespace

TEST_CASE("messages may come before the plan, and the plan before the call", "[engine]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (const Rank size : {2, 3, 5}) {
    for (const char* algorithm : {"ring", "tree", "recursive_doubling", "direct"}) {
      for (int round = 0; round < 10; ++round) {
        INFO(algorithm << " size " << size << " round " << round);
        EngineWorld world(size, random());
        world.add_all_ranks();
        Unplanned call(world, size, shape(algorithm, 23), MessageKind::call);
        for (const Rank rank : shuffled(size, random)) call.start(rank);
        for (const Rank rank : shuffled(size, random)) {
          CHECK(call.call(rank).finished == 0);
          call.plan(rank);
          for (auto i = random() % 40; i > 0; --i) world.world.progress_all();
        }
        REQUIRE(world.drive([&] { return call.finished() && world.world.idle(); }));
        CHECK(call.wrong() == 0);
      }
    }
  }
}

TEST_CASE("more calls wait for their plans than the window lets through", "[engine]") {
  constexpr Rank size = 3;
  constexpr std::size_t many = std::size_t{2} * window + 5;
  EngineWorld world(size, 11);
  world.add_all_ranks();
  std::vector<std::unique_ptr<Unplanned>> calls;
  for (std::size_t i = 0; i < many; ++i) {
    const auto salt = static_cast<std::uint32_t>(i);
    calls.push_back(
        std::make_unique<Unplanned>(world, size, shape("ring", 7, salt), MessageKind::call));
    for (Rank rank = 0; rank < size; ++rank) calls.back()->start(rank);
  }
  for (Rank rank = 0; rank < size; ++rank) {
    for (auto& call : calls) call->plan(rank);  // of those behind the window too
  }
  REQUIRE(world.drive([&] {
    return std::all_of(calls.begin(), calls.end(), [](auto& call) { return call->finished(); });
  }));
  for (auto& call : calls) CHECK(call->wrong() == 0);
}

TEST_CASE("a persistent request starts before it has a plan, or has one first", "[engine]") {
  constexpr Rank size = 4;
  EngineWorld world(size, 12);
  world.add_all_ranks();
  Unplanned call(world, size, shape("rabenseifner", 31), MessageKind::persistent);
  for (Rank rank = 0; rank < size; ++rank) {
    if (rank == 2) call.plan(rank);  // it has not started: nothing happens yet
    ++call.call(rank).run->round;
    call.start(rank);
    for (int i = 0; i < 20; ++i) world.world.progress_all();
  }
  CHECK_FALSE(world.drive([&] { return call.call(2).finished == 1; }));
  for (const Rank rank : {3, 0, 1}) call.plan(rank);
  REQUIRE(world.drive([&] { return call.finished(); }));
  CHECK(call.wrong() == 0);
  for (Rank rank = 0; rank < size; ++rank) {
    world.fill(rank, call.call(rank), call.options);
    ++call.call(rank).run->round;
    call.start(rank);
  }
  REQUIRE(world.drive([&] { return call.finished(2) && world.world.idle(); }));
  CHECK(call.wrong() == 0);
}

TEST_CASE("an error ends calls that have no plan yet, and drops what came for them", "[engine]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    constexpr Rank size = 3;
    EngineWorld world(size, seed);
    world.add_all_ranks();
    Unplanned call(world, size, shape("tree", 23), MessageKind::call);
    for (Rank rank = 0; rank < size; ++rank) call.start(rank);
    call.plan(1);
    for (int i = 0; i < 50; ++i) world.world.progress_all();
    world.engine(2).abandon(world.comm(2), Status::no_memory, "no plan can be made");
    REQUIRE(world.drive([&] { return call.finished() && world.world.idle(); }));
    for (const Call& mine : call.calls) CHECK(mine.status != 0);
    for (Rank rank = 0; rank < size; ++rank) world.engine(rank).remove(world.comm(rank));
    CHECK(world.world.idle());
  }
}

// The helper leaves user-defined reductions to the program, and with them the look at a call whose
// last messages are just under way: these then end it.
TEST_CASE("a call that ends while it is left to the program is not mistaken for the next",
          "[engine]") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    constexpr Rank size = 3;
    std::mt19937_64 random(seed);
    EngineWorld world(size, seed);
    world.add_all_ranks();
    const CallOptions options = shape("tree", 1);
    std::vector<Call> calls(size);
    for (Rank rank = 0; rank < size; ++rank) {
      world.bind(rank, calls[static_cast<std::size_t>(rank)], options, MessageKind::call);
      world.engine(rank).start(*calls[static_cast<std::size_t>(rank)].run);
    }
    const auto all_finished = [&] {
      return std::all_of(calls.begin(), calls.end(), [](const Call& c) { return c.finished == 1; });
    };
    for (int round = 0; round < 10000 && !all_finished(); ++round) {
      for (auto& engine : world.engines) {
        engine->progress(random() % 4 == 0 ? Caller::program : Caller::helper);
        while (Run* run = engine->pop_finished()) {
          run->done(run->user, static_cast<int>(run->status));
          engine->give(run);
        }
      }
    }
    REQUIRE(all_finished());
    Unplanned next(world, size, options, MessageKind::call);
    for (Rank rank = 0; rank < size; ++rank) next.start(rank);
    for (auto& engine : world.engines) engine->progress(Caller::program);  // no plan to look at yet
    for (Rank rank = 0; rank < size; ++rank) next.plan(rank);
    REQUIRE(world.drive([&] { return next.finished(); }));
    CHECK(next.wrong() == 0);
  }
}
