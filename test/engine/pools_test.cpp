// What calls are made of: plans, and the pools that keep their memory.
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/engine/pools.h"
#include "coll_gpuar/engine/program.h"
#include "test/catch.h"

using namespace gpuar;

TEST_CASE("scratch memory is kept for the next call, within its bound", "[engine]") {
  constexpr std::size_t large = 100000;
  ScratchPool pool(std::size_t{1} << 20);
  std::byte* first = pool.take(large);
  REQUIRE(first != nullptr);
  CHECK(pool.cached() == 0);
  pool.give(first, large);
  CHECK(pool.cached() == 131072);
  CHECK(pool.take(large + 5000) == first);  // the same power of two
  pool.give(first, large);
  std::byte* huge = pool.take(std::size_t{2} << 20);
  pool.give(huge, std::size_t{2} << 20);  // over the bound: not kept
  CHECK(pool.cached() == 131072);
  pool.release();
  CHECK(pool.cached() == 0);
  // Small blocks are distinct, and come back.
  std::byte* small = pool.take(10);
  std::byte* other = pool.take(256);
  CHECK(small != other);
  pool.give(other, 10);
  CHECK(pool.take(1) == other);
}

TEST_CASE("a plan cuts the elements into segments without a gap", "[engine]") {
  const auto program =
      std::make_shared<const Program>(build(*find_algorithm("ring"), 1, 5, BuildOptions{}));
  const std::size_t huge = (std::size_t{1} << 33) + 7;
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, huge}) {
    for (const std::size_t segment : {std::size_t{0}, std::size_t{1}, std::size_t{4096}}) {
      const Plan plan(program, count, 8, segment, 4);
      CHECK(plan.segments >= 1);
      CHECK(plan.segments <= (std::size_t{1} << 31));
      CHECK((plan.segments - 1) * plan.segment_elements + plan.elements_of(plan.segments - 1) ==
            count);
      CHECK(plan.depth <= plan.segments);
    }
  }
}

TEST_CASE("a plan: whole elements in a segment, a slot for the largest span of one", "[engine]") {
  const auto ring =
      std::make_shared<const Program>(build(*find_algorithm("ring"), 1, 5, BuildOptions{}));
  REQUIRE(ring->schedule.chunks == 5);
  REQUIRE(ring->schedule.slot_chunks == 1);
  struct Case {
    std::size_t count, element, segment_bytes;
    std::uint32_t in_flight;
    std::size_t segment_elements, segments;
    std::uint32_t depth;
    std::size_t slot_bytes;
  };
  for (const Case& is : {
           Case{1000, 8, 4096, 4, 512, 2, 2, 824},  // 103 of 512 elements
           Case{1024, 8, 4096, 1, 512, 2, 1, 824},
           Case{1000, 8, 0, 4, 1000, 1, 1, 1600},
           Case{100, 8, 7, 3, 1, 100, 3, 8},
           Case{3, 8, 0, 0, 3, 1, 1, 8},
           Case{0, 8, 64, 4, 8, 0, 1, 0},
           Case{(std::size_t{1} << 33) + 7, 1, 1, 4, 5, ((std::size_t{1} << 33) + 11) / 5, 4, 1},
       }) {
    CAPTURE(is.count, is.segment_bytes);
    const Plan plan(ring, is.count, is.element, is.segment_bytes, is.in_flight);
    CHECK(plan.segment_elements == is.segment_elements);
    CHECK(plan.segments == is.segments);
    CHECK(plan.depth == is.depth);
    CHECK(plan.slot_bytes == is.slot_bytes);
  }
}

TEST_CASE("a program knows each receive by its step, and what it takes", "[engine]") {
  const Schedule schedule = build(*find_algorithm("direct"), 1, 5, BuildOptions{});
  const Program program(schedule);  // of a copy, whose vectors have no room to spare
  REQUIRE(program.receive.size() == schedule.steps.size());
  REQUIRE(!schedule.recv_steps.empty());
  for (std::size_t i = 0; i < schedule.recv_steps.size(); ++i) {
    CHECK(program.receive[schedule.recv_steps[i]] == i);
  }
  const std::size_t indices = schedule.successors.size() + schedule.initial.size() +
                              schedule.recv_steps.size() + 2 * schedule.steps.size();
  CHECK(program.bytes() == sizeof(Program) + schedule.steps.size() * sizeof(Step) +
                               schedule.receives.size() * sizeof(PeerReceives) +
                               indices * sizeof(std::uint32_t));
}

TEST_CASE("objects of a pool are apart, stay where they are, and come back", "[engine]") {
  ObjectPool<std::uint64_t> pool;
  std::vector<std::uint64_t*> taken;
  for (std::uint64_t i = 0; i < 200; ++i) {
    taken.push_back(pool.take());
    REQUIRE(taken.back() != nullptr);
    *taken.back() = i;
  }
  const std::set<std::uint64_t*> apart(taken.begin(), taken.end());
  CHECK(apart.size() == taken.size());
  for (std::uint64_t i = 0; i < 200; ++i) CHECK(*taken[i] == i);
  pool.give(taken[7]);
  CHECK(pool.take() == taken[7]);
  for (std::uint64_t* object : taken) pool.give(object);
  for (std::uint64_t i = 0; i < 200; ++i) CHECK(apart.count(pool.take()) == 1);
}

TEST_CASE("blocks of a scratch pool are aligned, as long as asked for, and apart", "[engine]") {
  ScratchPool pool(std::size_t{1} << 20);
  struct Block {
    std::byte* data;
    std::size_t bytes;
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<Block> blocks;
    for (const std::size_t bytes : {1, 255, 256, 257, 512, 4096, 32768, 32769, 65536, 65537}) {
      for (int i = 0; i < 300 && i * bytes < 2000000; ++i) {
        blocks.push_back({pool.take(bytes), bytes});
        REQUIRE(blocks.back().data != nullptr);
        CHECK(reinterpret_cast<std::uintptr_t>(blocks.back().data) % 64 == 0);
        std::memset(blocks.back().data, static_cast<int>(blocks.size() % 251), bytes);
      }
    }
    std::size_t changed = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::byte mark{static_cast<unsigned char>((i + 1) % 251)};
      for (std::size_t k = 0; k < blocks[i].bytes; ++k) changed += blocks[i].data[k] != mark;
    }
    CHECK(changed == 0);
    for (const Block& block : blocks) pool.give(block.data, block.bytes);
    CHECK(pool.cached() <= std::size_t{1} << 20);
    CHECK(pool.cached() > std::size_t{1} << 19);
  }
}
