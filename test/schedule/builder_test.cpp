#include "coll_gpuar/schedule/builder.h"

#include <array>
#include <stdexcept>
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"
#include "test/catch.h"

namespace gpuar {
namespace {

constexpr Operand input{Place::input, 0};
constexpr Operand output{Place::output, 0};
constexpr Operand slot(std::uint16_t index) {
  return {Place::slot, index};
}

std::vector<std::uint32_t> successors(const Schedule& schedule, std::uint32_t step) {
  const Step& at = schedule.steps[step];
  const auto first = schedule.successors.begin() + at.first_successor;
  return {first, first + at.successor_count};
}

TEST_CASE("chunks that nothing writes are copied once", "[builder]") {
  Builder builder(0, 1, 5);
  const Schedule schedule = std::move(builder).finish();
  REQUIRE(schedule.steps.size() == 1);
  CHECK(schedule.steps[0].verb == Verb::copy);
  CHECK(schedule.steps[0].span == Span{0, 5});
  CHECK(schedule.steps[0].source == input);
  CHECK(schedule.steps[0].target == output);
  CHECK(schedule.initial == std::vector<std::uint32_t>{0});
  CHECK(schedule.slots == 0);
}

TEST_CASE("chunks that nothing writes are copied wherever they lie", "[builder]") {
  Builder builder(0, 2, 6);
  builder.recv(1, {1, 1});
  builder.recv(1, {3, 1});
  const Schedule schedule = std::move(builder).finish();
  std::vector<Span> copied;
  for (const Step& step : schedule.steps) {
    if (step.verb == Verb::copy) copied.push_back(step.span);
  }
  CHECK(copied == std::vector<Span>{{0, 1}, {2, 1}, {4, 2}});
}

TEST_CASE("the first reduction of a chunk reads the input, later ones the output", "[builder]") {
  Builder builder(1, 3, 1, {1, Association::chain});
  builder.recv_reduce(0, {0, 1});
  builder.recv_reduce(2, {0, 1});
  const Schedule schedule = std::move(builder).finish();
  REQUIRE(schedule.steps.size() == 4);
  // The operand of the lower ranks is on the left.
  CHECK(schedule.steps[1].source == slot(0));
  CHECK(schedule.steps[1].other == input);
  CHECK(schedule.steps[1].target == output);
  CHECK(schedule.steps[3].source == output);
  CHECK(schedule.steps[3].other == slot(0));
  // With one slot the second receive waits for the first reduction.
  CHECK(schedule.slots == 1);
  CHECK(successors(schedule, 1) == std::vector<std::uint32_t>{2, 3});
}

TEST_CASE("slots are used in turn", "[builder]") {
  Builder builder(1, 2, 4, {3, Association::chain});
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk) builder.recv_reduce(0, {chunk, 1});
  const Schedule schedule = std::move(builder).finish();
  REQUIRE(schedule.slots == 3);
  CHECK(schedule.slot_chunks == 1);
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
    const Step& receive = schedule.steps[std::size_t{2} * chunk];
    CHECK(receive.target == slot(static_cast<std::uint16_t>(chunk % 3)));
    CHECK(receive.message == chunk);
  }
  CHECK(schedule.initial == std::vector<std::uint32_t>{0, 2, 4});
}

TEST_CASE("a write waits for the readers since the last write", "[builder]") {
  Builder builder(0, 3, 2);
  builder.send(1, {0, 1});  // 0
  builder.send(2, {0, 2});  // 1
  builder.recv(1, {0, 1});  // 2: after 0 and 1, which read the chunk in place
  builder.send(2, {0, 1});  // 3: after 2
  builder.recv(2, {1, 1});  // 4: after 1
  const Schedule schedule = std::move(builder).finish();
  CHECK(successors(schedule, 0) == std::vector<std::uint32_t>{2});
  CHECK(successors(schedule, 1) == std::vector<std::uint32_t>{2, 4});
  CHECK(successors(schedule, 2) == std::vector<std::uint32_t>{3});
  CHECK(schedule.steps[2].dependencies == 2);
  CHECK(schedule.steps[3].source == output);
  CHECK(schedule.steps[3].message == 1);
}

TEST_CASE("a span of which a part was written is made whole before it is read", "[builder]") {
  Builder builder(0, 2, 4);
  builder.recv(1, {1, 2});
  builder.send(1, {0, 4});
  const Schedule schedule = std::move(builder).finish();
  REQUIRE(schedule.steps.size() == 4);
  CHECK(schedule.steps[1].verb == Verb::copy);
  CHECK(schedule.steps[1].span == Span{0, 1});
  CHECK(schedule.steps[2].span == Span{3, 1});
  CHECK(schedule.steps[3].verb == Verb::send);
  CHECK(schedule.steps[3].source == output);
  CHECK(schedule.steps[3].dependencies == 3);
}

TEST_CASE("a reduction of several writes the chunk with its last step only", "[builder]") {
  for (const Association association : {Association::chain, Association::tree}) {
    Builder builder(2, 5, 1, {1, association});
    builder.recv_reduce(std::array<Rank, 4>{0, 1, 3, 4}, {0, 1});
    const Schedule schedule = std::move(builder).finish();
    std::size_t reductions = 0;
    for (const Step& step : schedule.steps) {
      if (step.verb != Verb::reduce) continue;
      ++reductions;
      CHECK((step.target == output) == (reductions == 4));
    }
    CHECK(reductions == 4);
  }
}

TEST_CASE("receives are indexed by peer and number", "[builder]") {
  const Schedule schedule = build(*find_algorithm("rabenseifner"), 3, 8);
  std::size_t receives = 0;
  Rank previous = -1;
  for (const PeerReceives& from : schedule.receives) {
    CHECK(from.peer > previous);
    previous = from.peer;
    for (std::uint32_t k = 0; k < from.count; ++k) {
      const Step& step = schedule.steps[schedule.recv_steps[from.first + k]];
      CHECK(step.verb == Verb::recv);
      CHECK(step.peer == from.peer);
      CHECK(step.message == k);
    }
    receives += from.count;
  }
  CHECK(receives == 6);
  CHECK(schedule.recv_steps.size() == receives);
}

TEST_CASE("what no algorithm may narrate is rejected", "[builder]") {
  CHECK_THROWS_AS(Builder(0, 0, 1), std::invalid_argument);
  CHECK_THROWS_AS(Builder(2, 2, 1), std::invalid_argument);
  CHECK_THROWS_AS(Builder(0, 2, 0), std::invalid_argument);
  Builder builder(1, 4, 2);
  CHECK_THROWS_AS(builder.send(1, Span{0, 1}), std::invalid_argument);
  CHECK_THROWS_AS(builder.send(4, Span{0, 1}), std::invalid_argument);
  CHECK_THROWS_AS(builder.recv(0, Span{1, 2}), std::invalid_argument);
  CHECK_THROWS_AS(builder.recv(0, Span{0, 0}), std::invalid_argument);
  const Span one{0, 1};
  CHECK_THROWS_AS(builder.recv_reduce(std::array<Rank, 2>{2, 2}, one), std::invalid_argument);
  CHECK_THROWS_AS(builder.recv_reduce(std::array<Rank, 1>{4}, one), std::invalid_argument);
  CHECK_THROWS_AS(builder.recv_reduce(std::array<Rank, 2>{1, 2}, one), std::invalid_argument);
  CHECK_THROWS_AS(builder.recv_reduce(std::array<Rank, 2>{2, 0}, Span{0, 1}),
                  std::invalid_argument);
}

TEST_CASE("message numbers fit into 16 bits or the schedule is refused", "[builder]") {
  Builder builder(0, 2, 1);
  for (int i = 0; i < 65536; ++i) builder.send(1, {0, 1});
  CHECK_THROWS_AS(builder.send(1, Span{0, 1}), std::length_error);
}

TEST_CASE("elements are shared out over chunks without gap or overlap", "[schedule]") {
  const std::size_t large = std::size_t{3} << 40;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{6}, std::size_t{7},
                                  std::size_t{8}, std::size_t{5000}, large + 3}) {
    std::size_t end = 0;
    for (std::size_t chunk = 0; chunk < 7; ++chunk) {
      const ElementRange range = chunk_range(count, 7, chunk);
      CHECK(range.first == end);
      CHECK(range.count - count / 7 <= 1);
      end += range.count;
    }
    CHECK(end == count);
    CHECK(span_range(count, 7, {0, 7}).count == count);
    const ElementRange tail = span_range(count, 7, {5, 2});
    CHECK(tail.first + tail.count == count);
    CHECK(tail.count == chunk_range(count, 7, 5).count + chunk_range(count, 7, 6).count);
  }
}

}  // namespace
}  // namespace gpuar
