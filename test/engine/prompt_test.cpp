// What is done with messages where the transport has them, without a copy, and what becomes of them
// in a failure.
#include <algorithm>

#include "test/catch.h"
#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

struct Job {
  Job(Rank size, const CallOptions& options, MemoryOptions transport)
      : world(size, 1, transport), options(options), calls(static_cast<std::size_t>(size)) {
    world.add_all_ranks();
  }
  void start(Rank rank) {
    Call& call = calls[static_cast<std::size_t>(rank)];
    world.bind(rank, call, options, MessageKind::call);
    world.engine(rank).start(*call.run);
  }
  bool ended() {
    return world.drive([&] {
      return world.world.idle() && std::all_of(calls.begin(), calls.end(), [](const Call& call) {
               return !call.run || call.finished == 1;
             });
    });
  }

  EngineWorld world;
  CallOptions options;
  std::vector<Call> calls;
};

CallOptions predefined(const char* algorithm, std::size_t count) {
  CallOptions options;
  options.algorithm = find_algorithm(algorithm);
  options.count = count;
  options.predefined = true;
  return options;
}

// Eager messages, none of which may be kept.
constexpr MemoryOptions fleeting{.eager_limit = 4096, .holdable = 0, .prompt = 1};

}  // namespace

TEST_CASE("a message whose reduction waits for nothing else takes no scratch", "[engine][prompt]") {
  Job job(2, predefined("recursive_doubling", 20), fleeting);
  for (const Rank rank : {0, 1}) job.start(rank);
  REQUIRE(job.ended());
  for (const Rank rank : {0, 1}) {
    Call& call = job.calls[static_cast<std::size_t>(rank)];
    CHECK(job.world.wrong(rank, call, job.options) == 0);
    CHECK(job.world.engine(rank).pooled_bytes() == 0);
    for (const Lane& lane : call.run->lanes) CHECK(lane.scratch == nullptr);
  }
}

TEST_CASE("a message that another one must come before is kept in scratch", "[engine][prompt]") {
  Job job(4, predefined("direct", 20), fleeting);
  // The sum is in order of rank: what rank 3 sends has to wait for what rank 1 sends.
  for (const Rank rank : {0, 2, 3}) job.start(rank);
  job.world.rounds(100);
  CHECK(job.calls[0].finished == 0);
  job.start(1);
  REQUIRE(job.ended());
  for (Rank rank = 0; rank < 4; ++rank)
    CHECK(job.world.wrong(rank, job.calls[static_cast<std::size_t>(rank)], job.options) == 0);
}

TEST_CASE("a failure gives back every message that waits in a slot", "[engine][prompt]") {
  Job job(5, predefined("direct", 20), {.eager_limit = 4096, .holdable = 1});
  // In order of rank: all others wait for what rank 1 would send.
  for (const Rank rank : {0, 2, 3, 4}) job.start(rank);
  job.world.rounds(1000);
  job.world.engine(0).abandon(job.world.comm(0), Status::no_memory, "a test");
  REQUIRE(job.ended());
  for (const Rank rank : {0, 2, 3, 4}) CHECK(job.calls[static_cast<std::size_t>(rank)].status != 0);
}
