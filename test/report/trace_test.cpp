#include "coll_gpuar/report/trace.h"

#include <algorithm>

#include "test/catch.h"
#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

TraceEvent event(TraceEvent::Kind kind, std::int64_t begin, std::int64_t end) {
  TraceEvent made;
  made.kind = kind;
  made.begin = made.waited_until = begin;
  made.end = end;
  return made;
}

constexpr auto call = TraceEvent::Kind::call;
constexpr auto send = TraceEvent::Kind::send;
constexpr auto reduce = TraceEvent::Kind::reduce;
constexpr auto copy = TraceEvent::Kind::copy;

// Four ranks on one host that keep a trace each.
struct TracedWorld {
  static constexpr Rank size = 4;
  explicit TracedWorld(std::uint64_t seed) : world(size, seed) {
    clock.share();
    world.add_all_ranks();
    for (Rank rank = 0; rank < size; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      world.comm(rank).journal = std::make_unique<Journal>(
          rank, std::vector<PeerClock*>(static_cast<std::size_t>(size), &clock), totals[index]);
      traces[index].add_communicator({"another", "another", 1, 0});
      world.comm(rank).traced_as = traces[index].add_communicator({"key", "test", size, rank});
      world.engine(rank).use(traces[index]);
    }
  }
  bool call_once(const CallOptions& options) {
    std::vector<Call> calls(static_cast<std::size_t>(size));
    for (Rank rank = 0; rank < size; ++rank) {
      Call& mine = calls[static_cast<std::size_t>(rank)];
      world.bind(rank, mine, options, MessageKind::call);
      world.engine(rank).start(*mine.run);
    }
    return world.drive([&] {
      return world.world.idle() &&
             std::all_of(calls.begin(), calls.end(), [](const Call& c) { return c.finished == 1; });
    });
  }
  PeerClock clock;
  std::array<WaitTotals, size> totals;
  std::vector<Trace> traces{size, Trace(1000)};
  EngineWorld world;
};

std::size_t count(const std::vector<TraceEvent>& events, TraceEvent::Kind kind) {
  return static_cast<std::size_t>(std::count_if(
      events.begin(), events.end(), [kind](const TraceEvent& e) { return e.kind == kind; }));
}

}  // namespace

TEST_CASE("trace: the latest events are kept", "[report]") {
  Trace trace(3);
  CHECK(trace.sorted().empty());
  for (std::int64_t at = 0; at < 5; ++at) {
    trace.add(event(call, at, at + 1));
    CHECK(trace.left_out() == static_cast<std::uint64_t>(std::max<std::int64_t>(at - 2, 0)));
  }
  const auto events = trace.sorted();
  REQUIRE(events.size() == 3);
  CHECK(events.front().begin == 2);
  CHECK(events.back().begin == 4);
}

TEST_CASE("trace: communicators are bounded", "[report]") {
  Trace trace(1);
  for (std::uint32_t i = 0; i < 1024; ++i)
    CHECK(trace.add_communicator({std::to_string(i), "c", 2, 0}) == i);
  for (int i = 0; i < 3; ++i) CHECK(trace.add_communicator({"x", "c", 2, 0}) == 1024);
  CHECK(trace.communicators().size() == 1025);
}

TEST_CASE("trace: in a row nothing overlaps", "[report]") {
  const std::vector<TraceEvent> events{event(call, 0, 10), event(send, 1, 5),   event(send, 2, 3),
                                       event(send, 3, 4),  event(reduce, 4, 6), event(copy, 5, 7),
                                       event(call, 9, 11), event(call, 10, 12)};
  CHECK(rows_of(events) == std::vector<std::uint32_t>{0, 0, 1, 1, 0, 1, 1, 0});
}

TEST_CASE("trace: the steps of a call, on every rank", "[report]") {
  CallOptions options;
  options.algorithm = find_algorithm("ring");
  options.count = 4096;
  options.segment_bytes = 4096;
  options.depth = 2;
  const std::size_t segments = options.count * sizeof(Affine) / options.segment_bytes;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    CAPTURE(seed);
    TracedWorld traced(seed);
    REQUIRE(traced.call_once(options));
    for (const Trace& trace : traced.traces) {
      const auto events = trace.sorted();
      CHECK(count(events, call) == 1);
      CHECK(count(events, send) == segments * 6);
      CHECK(count(events, TraceEvent::Kind::receive) == segments * 6);
      CHECK(count(events, reduce) == segments * 3);
      CHECK(trace.left_out() == 0);
      const TraceEvent& whole = events.front();
      CHECK(whole.kind == call);
      CHECK(whole.bytes == options.count * sizeof(Affine));
      // Some message came when its step had waited for it.
      CHECK(std::any_of(events.begin(), events.end(), [](const TraceEvent& one) {
        return one.kind == TraceEvent::Kind::receive && one.waited_until > one.begin;
      }));
      for (const TraceEvent& one : events) {
        CHECK((one.kind == call || one.bytes == options.segment_bytes / 4));
        CHECK(one.comm == 1);
        CHECK(whole.begin <= one.begin);
        CHECK(one.begin <= one.waited_until);
        CHECK(one.waited_until <= one.end);
        CHECK(one.end <= whole.end);
      }
    }
  }
}
