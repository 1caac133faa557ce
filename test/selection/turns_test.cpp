#include "coll_gpuar/selection/turns.h"

#include <string>

#include "test/catch.h"
#include "test/selection/shapes.h"

namespace gpuar {
namespace {

using test::containers;
using test::layout_of;

CallShape call(const LayoutSummary& layout, Rank ranks, std::uint64_t bytes) {
  CallShape shape;
  shape.bytes = bytes;
  shape.element_bytes = 8;
  shape.ranks = ranks;
  shape.layout = layout;
  return shape;
}

Choice forced(const char* name, const CallShape& shape, const Machine& machine = {}) {
  Forced forced;
  std::string why;
  REQUIRE(parse_algorithm(name, forced, why));
  forced.radix = 2;
  return select(shape, forced, machine);
}

std::uint64_t crossings(const char* name) {
  const CallShape shape = call(layout_of(test::equal_nodes(4, 2)), 8, 8);
  return work_of(forced(name, shape), shape).crossings;
}

TEST_CASE("messages between hosts are counted", "[selection]") {
  CHECK(crossings("leaders:tree") == 6);
  CHECK(crossings("leaders:recursive_doubling") == 8);
  CHECK(crossings("leaders:direct") == 12);
  CHECK(crossings("hierarchy:direct") == 24);
  CHECK(crossings("hierarchy:two_shot") == 48);
  CHECK(crossings("tree") == 6);   // its other 8 stay within hosts
  CHECK(crossings("ring") == 56);  // 14 steps
}

TEST_CASE("what all ranks of a host do together is counted", "[selection]") {
  const CallShape four = call(containers(1, 4, 2), 4, 8000);
  const auto does = [&](const char* name, const CallShape& shape, Work expected) {
    INFO(name);
    const Work work = work_of(forced(name, shape), shape);
    CHECK(work.crossings == expected.crossings);
    CHECK(work.crossed == expected.crossed);
    CHECK(work.messages == expected.messages);
    CHECK(work.moved == expected.moved);
    CHECK(work.reduced == expected.reduced);
    CHECK(work.chunks == expected.chunks);
  };
  does("reduce_broadcast", four, {0, 0, 6, 6, 3, 1});
  does("tree", four, {0, 0, 6, 6, 3, 1});
  does("direct", four, {0, 0, 12, 12, 12, 1});
  does("recursive_doubling", four, {0, 0, 8, 8, 8, 1});
  does("ring", four, {0, 0, 24, 24, 12, 4});
  does("two_shot", four, {0, 0, 24, 24, 12, 4});
  // Of two packages of two: what crosses between these stays within the host.
  CallShape divided = call(summary_of(test::divided_nodes(1, 2, 2)), 4, 8000);
  divided.layout.shared_threads = 2;
  does("deep_leaders:direct", divided, {0, 0, 6, 6, 4, 1});
}

TEST_CASE("ranks of one machine pay for each message and byte between its hosts", "[selection]") {
  const Machine machine;
  const auto predicted = [&](const char* name, const LayoutSummary& layout, std::uint64_t bytes) {
    return forced(name, call(layout, 8, bytes)).predicted_ps;
  };
  const auto more = [&](const char* name, std::uint64_t bytes) {
    return predicted(name, containers(4, 2, 2), bytes) -
           predicted(name, layout_of(test::equal_nodes(4, 2)), bytes);
  };
  const std::uint64_t few = machine.crossing_bytes;
  const std::uint64_t byte = machine.crossing_byte;
  CHECK(more("leaders:direct", 8) == (12 * machine.crossing + 12 * 8 * byte) / 2);
  CHECK(more("leaders:direct", few) == (12 * machine.crossing + 12 * few * byte) / 2);
  CHECK(more("leaders:direct", few + 8) == (6 * machine.crossing + 12 * (few + 8) * byte) / 2);
  // Parts of eight elements.
  CHECK(more("hierarchy:two_shot", 64) == (48 * machine.crossing + 6 * 64 * byte) / 2);
}

TEST_CASE("on the cores of one host all work counts, and half of the longest chain",
          "[selection]") {
  Machine machine;
  machine.shared_memory = {0, 0, 100};  // a byte moved
  machine.reduce_byte = 0;
  machine.turn = 0;
  CallShape shape = call(containers(1, 4, 2), 4, 800);
  const auto predicted = [&](const char* name) {
    return forced(name, shape, machine).predicted_ps;
  };
  // 6 vectors moved by 2 cores, all of them on one chain, of which a quarter counts.
  CHECK(predicted("reduce_broadcast") == 800 * 100 * (6 / 2) + 800 * 100 * 6 / 4);
  CHECK(predicted("tree") == 800 * 100 * (6 / 2) + 800 * 100 * 4 / 4);
  CHECK(predicted("ring") == 800 * 100 * (6 / 2) + 200 * 100 * 6 / 4);
  // A third of the work for a third core.
  shape.layout.shared_threads = 3;
  CHECK(predicted("ring") == 800 * 100 * (6 / 3) + 200 * 100 * 6 / 3);
  // One core does all, one thing after the other.
  shape.layout.shared_threads = 1;
  CHECK(predicted("ring") == 800 * 100 * 6);
  // Reductions are work, too.
  machine.reduce_byte = 10;
  CHECK(predicted("ring") == 800 * 100 * 6 + 800 * 10 * 3);
  CHECK(predicted("direct") == 800 * 100 * 12 + 800 * 10 * 12);
  // And messages.
  machine.shared_memory.message = 5000;
  CHECK(predicted("direct") == 800 * 100 * 12 + 800 * 10 * 12 + 12 * 5000);
}

TEST_CASE("each round is a turn of all ranks of a core", "[selection]") {
  Machine machine;
  machine.shared_memory = {0, 0, 0};
  machine.reduce_byte = 0;
  machine.turn = 1000;
  CallShape shape = call(containers(1, 8, 2), 8, 64);
  const auto predicted = [&](const char* name) {
    return forced(name, shape, machine).predicted_ps;
  };
  CHECK(predicted("direct") == 1 * 4 * 1000);
  CHECK(predicted("recursive_doubling") == 3 * 4 * 1000);
  CHECK(predicted("ring") == 14 * 4 * 1000);
  shape.layout.shared_threads = 4;
  CHECK(predicted("ring") == 14 * 2 * 1000);
  // Segments in flight wait together; 5 segments of 1 make 5 turns, 2 in flight 3.
  shape.bytes = 40;
  Forced segmented{find_algorithm("direct"), 8, 1, 0, &compositions()[flat]};
  CHECK(select(shape, segmented, machine).predicted_ps == 5 * 2 * 1000);
  segmented.depth = 2;
  CHECK(select(shape, segmented, machine).predicted_ps == 3 * 2 * 1000);
}

TEST_CASE("a last, shorter segment is less work", "[selection]") {
  Machine machine;
  machine.shared_memory = {0, 0, 100};
  machine.reduce_byte = 0;
  machine.turn = 0;
  const CallShape shape = call(containers(1, 4, 1), 4, 1000);
  const Forced segmented{find_algorithm("reduce_broadcast"), 400, 1, 0, &compositions()[flat]};
  CHECK(select(shape, segmented, machine).predicted_ps == 1000 * 100 * 6);
}

TEST_CASE("too many ranks to count, devices: each latency is longer instead", "[selection]") {
  const auto oversubscribed = [](Rank ranks, const Machine& machine) {
    CallShape shape = call(containers(1, ranks, 2), ranks, 8);
    shape.layout.oversubscribed = true;
    return forced("direct", shape, machine).predicted_ps;
  };
  const auto latency = Machine{}.oversubscribed;
  const auto fits = [](Rank ranks, const Machine& machine) {
    const CallShape shape = call(layout_of(test::equal_nodes(1, ranks)), ranks, 8);
    return forced("direct", shape, machine).predicted_ps;
  };
  CHECK(oversubscribed(65, {}) == fits(65, {}) + latency);
  CHECK(oversubscribed(8, device_machine()) == fits(8, device_machine()) + latency);
  CHECK(oversubscribed(8, {}) < fits(8, {}) + latency);
}

}  // namespace
}  // namespace gpuar
