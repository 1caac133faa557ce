#include "coll_gpuar/engine/engine.h"

#include <algorithm>
#include <random>

#include "test/catch.h"
#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

// One blocking-like call of all ranks; the number of wrong elements, or npos if it hangs.
std::size_t allreduce(Rank size, const CallOptions& options, std::uint64_t seed, bool in_place) {
  EngineWorld world(size, seed);
  world.add_all_ranks();
  std::vector<Call> calls(static_cast<std::size_t>(size));
  for (Rank rank = 0; rank < size; ++rank) {
    Call& call = calls[static_cast<std::size_t>(rank)];
    call.in_place = in_place;
    world.bind(rank, call, options, MessageKind::call);
    world.engine(rank).start(*call.run);
  }
  const bool ended = world.drive([&] {
    return world.world.idle() &&
           std::all_of(calls.begin(), calls.end(), [](const Call& c) { return c.finished == 1; });
  });
  if (!ended) return std::string::npos;
  std::size_t wrong = 0;
  for (Rank rank = 0; rank < size; ++rank) {
    Call& call = calls[static_cast<std::size_t>(rank)];
    wrong += world.wrong(rank, call, options) + (call.status == 0 ? 0 : 1);
    wrong += world.engine(rank).outstanding();  // nothing is left behind
  }
  return wrong;
}

}  // namespace

TEST_CASE("every algorithm gives the right result through the engine", "[engine]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::uint64_t salt = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank size : {2, 3, 4, 5, 8}) {
      for (const std::size_t count :
           {std::size_t{1}, std::size_t{3}, std::size_t{17}, std::size_t{200}}) {
        for (const std::size_t segment : {std::size_t{0}, std::size_t{40}, std::size_t{8}}) {
          CallOptions options;
          options.algorithm = &algorithm;
          options.count = count;
          options.segment_bytes = segment;
          options.depth = 1 + static_cast<std::uint32_t>(salt % 4);
          options.salt = static_cast<std::uint32_t>(++salt);
          options.min_slots = 1 + static_cast<std::uint32_t>(salt % 3);
          options.mark = salt % 5 < 2 ? 1000 : 0;
          options.predefined = salt % 7 < 4;
          INFO(algorithm.name << " size " << size << " count " << count << " segment " << segment
                              << " depth " << options.depth);
          CHECK(allreduce(size, options, seed + salt, salt % 2 == 0) == 0);
        }
      }
    }
  }
}

TEST_CASE("every composition gives the right result through the engine", "[engine]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::uint64_t salt = 0;
  for (const Composition& composition : compositions().subspan(1, 2)) {
    for (const Algorithm& algorithm : algorithms()) {
      for (const Level& nodes : {Level{0, 0, 1, 1}, Level{0, 1, 1, 1}, Level{0, 0, 1, 1, 2}}) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{200}}) {
          CallOptions options;
          options.composition = &composition;
          options.algorithm = &algorithm;
          options.levels = {nodes};
          options.count = count;
          options.segment_bytes = salt % 2 == 0 ? 0 : 40;
          options.depth = 1 + static_cast<std::uint32_t>(salt % 4);
          options.salt = static_cast<std::uint32_t>(++salt);
          options.min_slots = 1 + static_cast<std::uint32_t>(salt % 3);
          options.mark = salt % 5 < 2 ? 1000 : 0;
          options.predefined = salt % 7 < 4;
          INFO(composition.name << " of " << algorithm.name << " size " << nodes.size() << " count "
                                << count << " depth " << options.depth);
          const auto size = static_cast<Rank>(nodes.size());
          CHECK(allreduce(size, options, seed + salt, salt % 2 == 0) == 0);
        }
      }
    }
  }
}

TEST_CASE("a call without a function to call at its end says itself that it is complete",
          "[engine]") {
  const CallOptions options = basic("ring", 50);
  EngineWorld world(2, 1);
  world.add_all_ranks();
  std::vector<Call> calls(2);
  for (const Rank rank : {0, 1}) {
    Call& call = calls[static_cast<std::size_t>(rank)];
    world.bind(rank, call, options, MessageKind::call);
    call.run->done = nullptr;
    world.engine(rank).start(*call.run);
    CHECK_FALSE(call.run->complete.load());
  }
  CHECK(world.drive([&] { return calls[0].run->complete && calls[1].run->complete; }));
  for (const Rank rank : {0, 1})
    CHECK(world.wrong(rank, calls[static_cast<std::size_t>(rank)], options) == 0);
}

TEST_CASE("a call of no elements ends by itself", "[engine]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (const std::size_t segment : {std::size_t{0}, std::size_t{40}}) {
      CallOptions options;
      options.algorithm = &algorithm;
      options.count = 0;
      options.segment_bytes = segment;
      options.depth = 2;
      INFO(algorithm.name << " segment " << segment);
      CHECK(allreduce(3, options, 7, false) == 0);
    }
  }
}

TEST_CASE("more calls outstanding than the window, finished in any order", "[engine]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  constexpr Rank size = 3;
  constexpr std::size_t outstanding = std::size_t{3} * window + 5;
  EngineWorld world(size, seed);
  world.add_all_ranks();
  std::vector<std::vector<Call>> calls(size);
  for (auto& row : calls) row = std::vector<Call>(outstanding);
  CallOptions options = basic("recursive_doubling", 5);
  // Rank 0 makes all its calls before anybody else makes the first.
  for (Rank rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < outstanding; ++i) {
      options.salt = static_cast<std::uint32_t>(i);
      Call& call = calls[static_cast<std::size_t>(rank)][i];
      world.bind(rank, call, options, MessageKind::call);
      world.engine(rank).start(*call.run);
    }
    for (int i = 0; i < 50; ++i) world.world.progress_all();
  }
  REQUIRE(world.drive([&] {
    return std::all_of(calls.begin(), calls.end(), [](const auto& row) {
      return std::all_of(row.begin(), row.end(), [](const Call& c) { return c.finished == 1; });
    });
  }));
  for (Rank rank = 0; rank < size; ++rank) {
    for (std::size_t i = 0; i < outstanding; ++i) {
      options.salt = static_cast<std::uint32_t>(i);
      CHECK(world.wrong(rank, calls[static_cast<std::size_t>(rank)][i], options) == 0);
    }
  }
}

TEST_CASE("persistent requests start in another order on each rank, with new data", "[engine]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  constexpr Rank size = 4;
  constexpr std::size_t requests =
      std::size_t{2} * window + 1;  // more than a window would let through
  EngineWorld world(size, seed);
  world.add_all_ranks();
  CallOptions options = basic("rabenseifner", 9);
  options.segment_bytes = 24;
  options.depth = 2;
  std::vector<std::vector<Call>> calls(size);
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  for (Rank rank = 0; rank < size; ++rank) {
    auto& row = calls[static_cast<std::size_t>(rank)] = std::vector<Call>(requests);
    for (std::size_t i = 0; i < requests; ++i) {
      row[i].in_place = i % 3 == 0;
      world.bind(rank, row[i], options, MessageKind::persistent);
    }
  }
  for (std::size_t start = 1; start <= 5; ++start) {
    for (Rank rank = 0; rank < size; ++rank) {
      auto& row = calls[static_cast<std::size_t>(rank)];
      std::vector<std::size_t> order(requests);
      for (std::size_t i = 0; i < requests; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      for (const std::size_t i : order) {
        options.salt = static_cast<std::uint32_t>(i * 100 + start);
        world.fill(rank, row[i], options);
        ++row[i].run->round;
        world.engine(rank).start(*row[i].run);
      }
    }
    REQUIRE(world.drive([&] {
      return std::all_of(calls.begin(), calls.end(), [&](const auto& row) {
        return std::all_of(row.begin(), row.end(),
                           [&](const Call& c) { return c.finished == start; });
      });
    }));
    for (Rank rank = 0; rank < size; ++rank) {
      for (std::size_t i = 0; i < requests; ++i) {
        options.salt = static_cast<std::uint32_t>(i * 100 + start);
        CHECK(world.wrong(rank, calls[static_cast<std::size_t>(rank)][i], options) == 0);
      }
    }
  }
}

TEST_CASE("messages may come before the communicator is made", "[engine]") {
  EngineWorld world(3, 99);
  CallOptions options = basic("ring", 30);
  std::vector<Call> calls(3);
  for (Rank rank = 0; rank < 3; ++rank) {
    world.add(rank);
    Call& call = calls[static_cast<std::size_t>(rank)];
    world.bind(rank, call, options, MessageKind::call);
    world.engine(rank).start(*call.run);
    for (int i = 0; i < 100; ++i) world.world.progress_all();
  }
  REQUIRE(world.drive([&] {
    return std::all_of(calls.begin(), calls.end(), [](const Call& c) { return c.finished == 1; });
  }));
  for (Rank rank = 0; rank < 3; ++rank) {
    CHECK(world.wrong(rank, calls[static_cast<std::size_t>(rank)], options) == 0);
  }
}

TEST_CASE("word that a rank gave up may come before the communicator is made", "[engine]") {
  EngineWorld world(3, 99);
  world.add(0);
  world.engine(0).abandon(world.comm(0), Status::failed, "test");
  for (int i = 0; i < 100; ++i) world.world.progress_all();
  world.comm(2).processes[0] = 7;  // another communicator, which got the id of that one
  for (const Rank rank : {1, 2}) world.add(rank);
  CHECK(world.comm(1).status == Status::aborted);
  CHECK(world.comm(2).status == Status::ok);
  CHECK(world.world.idle());
}

TEST_CASE("ranks that disagree on the count all get an error, and nothing is left", "[engine]") {
  for (const char* name : {"recursive_doubling", "ring", "tree", "direct"}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      INFO(name << " seed " << seed);
      EngineWorld world(4, seed);
      world.add_all_ranks();
      std::vector<std::string> said;
      static std::vector<std::string>* log = nullptr;
      log = &said;
      std::vector<Call> calls(4);
      for (Rank rank = 0; rank < 4; ++rank) {
        world.comm(rank).log = [](Comm&, const std::string& line) { log->push_back(line); };
        Call& call = calls[static_cast<std::size_t>(rank)];
        world.bind(rank, call, basic(name, rank == 2 ? 60 : 50), MessageKind::call);
        world.engine(rank).start(*call.run);
      }
      REQUIRE(world.drive([&] {
        return std::all_of(calls.begin(), calls.end(),
                           [](const Call& c) { return c.finished == 1; }) &&
               world.world.idle();
      }));
      CHECK(std::all_of(calls.begin(), calls.end(), [](const Call& c) { return c.status != 0; }));
      REQUIRE(!said.empty());
      CHECK(said.front().find("rank") != std::string::npos);
      // The communicator stays broken; the next call fails at once and does not hang.
      Call late;
      world.bind(0, late, basic(name, 50), MessageKind::call);
      world.engine(0).start(*late.run);
      CHECK(world.drive([&] { return late.finished == 1; }));
      CHECK(late.status != 0);
      for (Rank rank = 0; rank < 4; ++rank) world.engine(rank).remove(world.comm(rank));
      CHECK(world.world.idle());
    }
  }
}

TEST_CASE("a message that nobody may send breaks the communicator, not the process", "[engine]") {
  struct Bad {
    const char* what;
    MessageHeader header;
  };
  const std::uint16_t call = pack_kind(MessageKind::call, 0);
  const std::vector<Bad> bad = {
      {"no such rank", {{7, 11}, 0, 77, 0, 0, call}},
      {"no such segment", {{7, 11}, 0, 1, 1000, 0, call}},
      {"no such message", {{7, 11}, 0, 1, 0, 500, call}},
  };
  for (const Bad& example : bad) {
    INFO(example.what);
    EngineWorld world(2, 3);
    world.add_all_ranks();
    Call mine;
    world.bind(0, mine, basic("recursive_doubling", 4), MessageKind::call);
    world.engine(0).start(*mine.run);
    TransportOp op;
    op.done = [](TransportOp*, Status) {};
    op.header = example.header;
    const char payload[8] = {};
    (void)world.world.rank(1).send(0, op, payload, sizeof payload);
    CHECK(world.drive([&] { return mine.finished == 1; }));
    CHECK(mine.status != 0);
  }
}

TEST_CASE("a note brings its data, also to a communicator that is made later", "[engine]") {
  static std::vector<std::byte> brought;
  for (const Rank first : {0, 1}) {
    EngineWorld world(2, 21);
    brought.clear();
    world.comm(0).take_note = [](Comm&, const MessageHeader& note, const Arrival& arrival) {
      CHECK(note_of(note) == Note::shows);
      const auto* const data = static_cast<const std::byte*>(arrival.data);
      brought.insert(brought.end(), data, data + arrival.bytes);
    };
    const std::vector<std::byte> data(64, std::byte{0x5a});
    world.add(first);
    if (first == 0) world.add(1);
    world.engine(1).notify(world.comm(1), 0, note({7, 11}, 1, Note::shows, 0, 0), data);
    for (int i = 0; i < 100; ++i) world.world.progress_all();
    if (first == 1) world.add(0);
    CHECK(brought == data);
    CHECK(world.world.idle());
  }
}

TEST_CASE("a message of a rank that has nothing to send is not taken for another's", "[engine]") {
  EngineWorld world(4, 3);
  world.add_all_ranks();
  Call mine;
  world.bind(0, mine, basic("ring", 4), MessageKind::call);
  const auto& receives = mine.run->plan->program->schedule.receives;
  REQUIRE(receives.size() == 1);
  REQUIRE(receives.front().peer == 3);
  world.engine(0).start(*mine.run);
  TransportOp op;
  op.done = [](TransportOp*, Status) {};
  op.header = {{7, 11}, 0, 2, 0, 0, pack_kind(MessageKind::call, 0)};
  const char payload[sizeof(Affine)] = {};
  (void)world.world.rank(2).send(0, op, payload, sizeof payload);
  CHECK(world.drive([&] { return mine.finished == 1; }));
  CHECK(mine.status == static_cast<int>(Status::bad_message));
}

TEST_CASE("the helper thread never runs a user-defined reduction", "[engine]") {
  EngineWorld world(2, 8);
  world.add_all_ranks();
  std::vector<Call> calls(2);
  const CallOptions options = basic("recursive_doubling", 4);
  static bool allowed = false;
  static bool broken = false;
  allowed = broken = false;
  for (Rank rank = 0; rank < 2; ++rank) {
    Call& call = calls[static_cast<std::size_t>(rank)];
    world.bind(rank, call, options, MessageKind::call);
    call.run->binding.reduction.custom = [](void* context, void* out, const void* left,
                                            const void* right, std::size_t count) {
      broken = broken || !allowed;
      return compose_all(context, out, left, right, count);
    };
    world.engine(rank).start(*call.run);
  }
  for (int i = 0; i < 1000; ++i) {
    for (auto& engine : world.engines) engine->progress(Caller::helper);
  }
  CHECK(calls[0].finished == 0);
  allowed = true;
  CHECK(world.drive([&] { return calls[0].finished == 1 && calls[1].finished == 1; }));
  CHECK(!broken);
  CHECK(world.wrong(0, calls[0], options) == 0);
}

TEST_CASE("after the helper's turn a call of the program reduces at once", "[engine]") {
  EngineWorld world(2, 8);
  world.add_all_ranks();
  std::vector<Call> calls(2);
  const CallOptions options = basic("direct", 4);
  for (const Rank rank : {0, 1})
    world.bind(rank, calls[static_cast<std::size_t>(rank)], options, MessageKind::call);
  world.engine(1).start(*calls[1].run);
  for (int i = 0; i < 1000; ++i) {
    for (auto& engine : world.engines) engine->progress(Caller::helper);
  }
  world.engine(0).start(*calls[0].run);  // the other's message lies here already
  CHECK(world.wrong(0, calls[0], options) == 0);
  CHECK(world.drive([&] { return calls[0].finished == 1 && calls[1].finished == 1; }));
}
