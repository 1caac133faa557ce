// Whether every rank learns who was last, through every algorithm and an unkind transport.
#include "coll_gpuar/report/journal.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "test/catch.h"
#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

constexpr auto pause_before_the_last = std::chrono::milliseconds(2);

// A world whose ranks keep journals: all on one host, or each on its own.
struct Journals {
  explicit Journals(EngineWorld& world, bool one_host) {
    const auto size = static_cast<std::size_t>(world.world.size());
    clocks.resize(size * size);
    totals.resize(size);
    for (std::size_t rank = 0; rank < size; ++rank) {
      std::vector<PeerClock*> of_peers;
      for (std::size_t peer = 0; peer < size; ++peer) {
        PeerClock& clock = clocks[rank * size + peer];
        if (one_host || peer == rank) clock.share();
        of_peers.push_back(&clock);
      }
      world.comm(static_cast<Rank>(rank)).journal =
          std::make_unique<Journal>(static_cast<Rank>(rank), std::move(of_peers), totals[rank]);
    }
  }
  std::vector<PeerClock> clocks;
  std::vector<WaitTotals> totals;
};

// One call that `last` enters 2 ms after the others.
bool call(EngineWorld& world, Rank size, const CallOptions& options, Rank last) {
  std::vector<Call> calls(static_cast<std::size_t>(size));
  const auto enter = [&](Rank rank) {
    Call& mine = calls[static_cast<std::size_t>(rank)];
    world.bind(rank, mine, options, MessageKind::call);
    world.engine(rank).start(*mine.run);
  };
  for (Rank rank = 0; rank < size; ++rank) {
    if (rank != last) enter(rank);
  }
  std::this_thread::sleep_for(pause_before_the_last);
  enter(last);
  return world.drive([&] {
    return world.world.idle() &&
           std::all_of(calls.begin(), calls.end(), [](const Call& c) { return c.finished == 1; });
  });
}

}  // namespace

TEST_CASE("journal: every rank learns who was last, and waited for it alone", "[report]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank size : {2, 3, 5, 8}) {
      CallOptions options;
      options.algorithm = &algorithm;
      options.count = static_cast<std::size_t>(size) + 3;
      options.segment_bytes = 40;
      options.depth = 2;
      EngineWorld world(size, 1234);
      world.add_all_ranks();
      const Journals journals(world, true);
      const Rank last = (size - 1) / 2;
      REQUIRE(call(world, size, options, last));
      for (Rank rank = 0; rank < size; ++rank) {
        INFO(algorithm.name << " size " << size << " rank " << rank);
        const auto& rows = world.comm(rank).journal->rows();
        REQUIRE(rows.size() == 1);
        const Row& row = rows.front();
        CHECK(row.calls == 1);
        CHECK(row.compared == 1);
        CHECK(row.late[static_cast<std::size_t>(last)].calls == 1);
        CHECK(row.waited <= row.known);
        CHECK(row.known == row.total);
        const std::int64_t least = std::chrono::nanoseconds(pause_before_the_last).count();
        CHECK((rank == last ? row.waited == 0 : row.waited >= least));
      }
    }
  }
}

TEST_CASE("journal: between hosts the clocks are asked, and calls compared from then on",
          "[report]") {
  EngineWorld world(2, 99);
  world.add_all_ranks();
  const Journals journals(world, false);
  CallOptions options;
  options.algorithm = find_algorithm("recursive_doubling");
  for (int i = 0; i < 20; ++i) REQUIRE(call(world, 2, options, 1));
  const Row& row = world.comm(0).journal->rows().front();
  CHECK(row.calls == 20);
  CHECK(row.compared >= 10);
  CHECK(row.late[1].calls == row.compared);
}

TEST_CASE("journal: what another rank has found of the clocks is taken over", "[report]") {
  EngineWorld world(2, 5);
  world.add_all_ranks();
  const Journals journals(world, false);
  const PeerClock& clock = journals.clocks[1];  // of rank 1, as rank 0 knows it
  REQUIRE(clock.uncertainty(now_ns()) == PeerClock::unknown);
  TransportOp op;
  op.done = [](TransportOp*, Status) {};
  op.header = note(world.comm(1).id, 1, Note::tells, 77'000, 3);
  (void)world.world.rank(1).send(0, op, nullptr, 0);
  for (int i = 0; i < 100; ++i) world.world.progress_all();
  CHECK(clock.offset() == -77'000);
  CHECK(clock.uncertainty(now_ns()) >= 3'000);
  CHECK(clock.uncertainty(now_ns()) < 10'000'000);
}

TEST_CASE("journal: a call is divided only as far as the clocks are known", "[report]") {
  constexpr std::int64_t ahead = 77'000'000'000;
  WaitTotals totals;
  PeerClock clock;
  Journal journal(0, {nullptr, &clock}, totals);
  const CallClass of{4, Form::blocking, 0, 1};
  const auto call = [&](std::int64_t later) {
    CallTimes times;
    journal.enter(times);
    const bool ask = journal.hear(times, 1, stamps::make(times.entered + ahead + later, 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    journal.leave(times, of, 8);
    return ask;
  };
  const auto row = [&]() -> const Row& { return journal.rows().front(); };
  CHECK(call(500'000));  // asked at once
  CHECK(row().compared == 0);
  REQUIRE(clock.told(ahead, 900'000, now_ns()));
  CHECK_FALSE(call(500'000));  // known, and not well enough
  CHECK(row().compared == 0);
  CHECK(journal.to_ask() == std::vector<Rank>{1});
  call(-5'000'000);  // well enough to know that this rank was the last
  CHECK(row().compared == 1);
  CHECK(row().late[0].calls == 1);
  REQUIRE(clock.told(ahead, 1'000, now_ns()));
  call(500'000);
  CHECK(row().compared == 2);
  CHECK(row().late[1].calls == 1);
  CHECK(std::abs(row().waited - 500'000) < 32);
}

TEST_CASE("journal: calls of other kinds have rows of their own", "[report]") {
  WaitTotals totals;
  Journal journal(0, {nullptr}, totals);
  CallTimes times;
  const auto note = [&](const CallClass& of, std::size_t bytes) {
    journal.enter(times);
    journal.leave(times, of, bytes);
  };
  for (int i = 0; i < 3; ++i) note({4, Form::blocking, 0, 1}, 8);
  note({4, Form::nonblocking, 0, 1}, 8);
  note({4, Form::blocking, 0, 1}, 12);
  note({5, Form::blocking, 0, 1}, 16);
  note({4, Form::blocking, 1, 1}, 8);
  note({4, Form::blocking, 0, 2}, 8);
  REQUIRE(journal.rows().size() == 5);
  CHECK(journal.rows()[0].calls == 4);
  CHECK(journal.rows()[0].bytes == 36);
  CHECK(totals.wait_ns == 0);
}
