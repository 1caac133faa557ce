// The program's calls and those that Open MPI makes itself: two streams of one communicator.
#include <algorithm>
#include <array>
#include <random>

#include "test/catch.h"
#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

constexpr std::array<MessageKind, 2> both{MessageKind::call, MessageKind::internal};

// The calls of one stream on all ranks. Every call has data of its own.
class Calls {
 public:
  Calls(EngineWorld& world, Rank size, MessageKind kind, std::size_t count,
        const CallOptions& options)
      : world_(world), kind_(kind), options_(options), rows_(static_cast<std::size_t>(size)) {
    for (Row& row : rows_) row.calls = std::vector<Call>(count);
  }

  bool left(Rank rank) { return row(rank).made < row(rank).calls.size(); }
  void make_next(Rank rank) {
    Row& mine = row(rank);
    Call& call = mine.calls[mine.made];
    world_.bind(rank, call, options(mine.made), kind_);
    ++mine.made;
    world_.engine(rank).start(*call.run);
  }
  void make_all(Rank rank) {
    while (left(rank)) make_next(rank);
  }

  bool finished(Rank rank) {
    const Row& mine = row(rank);
    return std::all_of(mine.calls.begin(), mine.calls.end(),
                       [](const Call& call) { return call.finished == 1; });
  }
  bool finished() {
    for (Rank rank = 0; rank < size(); ++rank) {
      if (!finished(rank)) return false;
    }
    return true;
  }
  std::size_t failed(Rank rank) {
    const Row& mine = row(rank);
    return static_cast<std::size_t>(std::count_if(mine.calls.begin(), mine.calls.end(),
                                                  [](const Call& c) { return c.status != 0; }));
  }
  // Wrong elements and failed calls of all ranks.
  std::size_t wrong() {
    std::size_t bad = 0;
    for (Rank rank = 0; rank < size(); ++rank) {
      Row& mine = row(rank);
      bad += failed(rank);
      for (std::size_t i = 0; i < mine.calls.size(); ++i) {
        bad += world_.wrong(rank, mine.calls[i], options(i));
      }
    }
    return bad;
  }

 private:
  struct Row {
    std::vector<Call> calls;
    std::size_t made = 0;
  };
  Row& row(Rank rank) { return rows_[static_cast<std::size_t>(rank)]; }
  Rank size() const { return static_cast<Rank>(rows_.size()); }
  CallOptions options(std::size_t i) const {
    CallOptions own = options_;
    own.salt = static_cast<std::uint32_t>(2 * i) + static_cast<std::uint32_t>(kind_);
    return own;
  }

  EngineWorld& world_;
  MessageKind kind_;
  CallOptions options_;
  std::vector<Row> rows_;
};

CallOptions shape(const char* algorithm, std::size_t count, std::size_t segment_bytes = 0) {
  CallOptions options;
  options.algorithm = find_algorithm(algorithm);
  options.count = count;
  options.segment_bytes = segment_bytes;
  options.depth = 2;
  return options;
}

}  // namespace

TEST_CASE("Open MPI's own calls may come at other places on each rank", "[engine]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (const Rank size : {2, 3, 5}) {
    for (const std::size_t own : {std::size_t{7}, std::size_t{2} * window + 3}) {
      INFO("size " << size << ", calls of its own " << own);
      EngineWorld world(size, seed);
      world.add_all_ranks();
      Calls program(world, size, MessageKind::call, std::size_t{2} * window + 9,
                    shape("ring", 11, 24));
      Calls internal(world, size, MessageKind::internal, own, shape("recursive_doubling", 1));
      for (Rank rank = 0; rank < size; ++rank) {
        while (program.left(rank) || internal.left(rank)) {
          const bool of_program = !internal.left(rank) || (program.left(rank) && random() % 2 == 0);
          (of_program ? program : internal).make_next(rank);
          if (random() % 3 == 0) world.world.progress_all();
        }
      }
      REQUIRE(world.drive(
          [&] { return program.finished() && internal.finished() && world.world.idle(); }));
      CHECK(program.wrong() == 0);
      CHECK(internal.wrong() == 0);
    }
  }
}

TEST_CASE("a message waits for the call of its own stream", "[engine]") {
  for (const MessageKind early : both) {
    EngineWorld world(2, 21);
    world.add_all_ranks();
    // Of one shape: taken for each other they would end, with wrong sums.
    Calls program(world, 2, MessageKind::call, 1, shape("direct", 2));
    Calls internal(world, 2, MessageKind::internal, 1, shape("direct", 2));
    Calls& first = early == MessageKind::call ? program : internal;
    Calls& second = early == MessageKind::call ? internal : program;
    first.make_next(1);
    for (int i = 0; i < 200; ++i) world.world.progress_all();
    second.make_next(0);
    CHECK_FALSE(world.drive([&] { return first.finished(1) || second.finished(0); }));
    first.make_next(0);
    REQUIRE(world.drive([&] { return first.finished(); }));
    CHECK_FALSE(second.finished(0));
    second.make_next(1);
    REQUIRE(world.drive([&] { return second.finished() && world.world.idle(); }));
    CHECK(program.wrong() == 0);
    CHECK(internal.wrong() == 0);
  }
}

TEST_CASE("a stream behind its window does not hold up the other", "[engine]") {
  for (const MessageKind full : both) {
    const MessageKind other = full == MessageKind::call ? MessageKind::internal : MessageKind::call;
    EngineWorld world(3, 4);
    world.add_all_ranks();
    Calls many(world, 3, full, std::size_t{2} * window, shape("tree", 5));
    Calls few(world, 3, other, 10, shape("tree", 1));
    many.make_all(0);
    many.make_all(1);  // rank 2 makes none of these yet
    for (Rank rank = 0; rank < 3; ++rank) few.make_all(rank);
    REQUIRE(world.drive([&] { return few.finished(); }));
    CHECK(few.wrong() == 0);
    CHECK_FALSE(many.finished(0));
    many.make_all(2);
    REQUIRE(world.drive([&] { return many.finished() && world.world.idle(); }));
    CHECK(many.wrong() == 0);
  }
}

TEST_CASE("the sequence number of either stream may wrap", "[engine]") {
  for (const MessageKind kind : both) {
    EngineWorld world(2, 5);
    world.add_all_ranks();
    for (Rank rank = 0; rank < 2; ++rank) {
      Stream& stream = *world.comm(rank).stream(kind);
      stream.next_sequence = stream.started = stream.oldest = 0xffffffffU - 70;
    }
    Calls calls(world, 2, kind, std::size_t{3} * window, shape("direct", 3));
    calls.make_all(0);
    calls.make_all(1);
    REQUIRE(world.drive([&] { return calls.finished(); }));
    CHECK(calls.wrong() == 0);
    const Stream& stream = *world.comm(0).stream(kind);
    CHECK(stream.oldest == stream.next_sequence);
    CHECK(stream.next_sequence < 3 * window);
  }
}

TEST_CASE("an error in one stream ends the calls of both, on all ranks", "[engine]") {
  for (const MessageKind broken : both) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      INFO("seed " << seed);
      constexpr Rank size = 3;
      const MessageKind other =
          broken == MessageKind::call ? MessageKind::internal : MessageKind::call;
      EngineWorld world(size, seed);
      world.add_all_ranks();
      constexpr std::size_t more_than_a_window = window + 6;
      Calls waiting(world, size, other, more_than_a_window, shape("ring", 4));
      Calls bad(world, size, broken, 1, shape("ring", 30));
      Calls worse(world, size, broken, 1, shape("ring", 40));
      for (Rank rank = 0; rank < size; ++rank) {
        if (rank != 0) waiting.make_all(rank);  // so that none of them ends by itself
        (rank == 2 ? worse : bad).make_next(rank);
      }
      REQUIRE(world.drive([&] {
        return waiting.finished(1) && waiting.finished(2) && bad.finished(0) && bad.finished(1) &&
               worse.finished(2) && world.world.idle();
      }));
      CHECK(waiting.failed(1) == more_than_a_window);
      CHECK(waiting.failed(2) == more_than_a_window);
      CHECK(bad.failed(0) + bad.failed(1) + worse.failed(2) == size);
      waiting.make_all(0);  // too late: they fail at once
      CHECK(world.drive([&] { return waiting.finished(0); }));
      CHECK(waiting.failed(0) == more_than_a_window);
      CHECK(world.world.idle());
    }
  }
}
