// Calls on device memory through the engine and the staging layer.
#include <algorithm>
#include <array>
#include <random>

#include "test/catch.h"
#include "test/engine/device/device_world.h"

using namespace gpuar;
using namespace gpuar::test;
using device::Kind;

namespace {

constexpr Rank most_ranks = 5;

constexpr std::array<Kind, 5> kinds{Kind::device, Kind::managed, Kind::pinned, Kind::pool,
                                    Kind::host};

// Every rank differently: kinds of memory, in where or not, carried one way or the other.
Where mixed(std::size_t choice) {
  Where where;
  where.in = kinds[choice % kinds.size()];
  where.out = kinds[choice / kinds.size() % kinds.size()];
  where.in_place = choice % 3 == 0;
  where.carry = choice % 2 == 0 ? Carry::on_device : Carry::through_host;
  where.after_queued_work = choice % 7 < 2;
  return where;
}

Shape shape(const char* algorithm, std::size_t count, std::size_t segment_bytes = 0,
            std::uint32_t depth = 1) {
  Shape made;
  made.algorithm = find_algorithm(algorithm);
  made.count = count;
  made.segment_bytes = segment_bytes;
  made.depth = depth;
  return made;
}

// A call of all ranks, whose places `where` gives.
class Calls {
 public:
  template <class PlaceOf>
  Calls(DeviceWorld& world, Rank size, const Shape& shape, PlaceOf where,
        MessageKind kind = MessageKind::call)
      : sides(static_cast<std::size_t>(size)), world_(world), shape_(shape) {
    for (Rank rank = 0; rank < size; ++rank) {
      side(rank).where = where(rank);
      world.bind(rank, side(rank), shape, kind);
    }
  }
  Side& side(Rank rank) { return sides[static_cast<std::size_t>(rank)]; }
  Rank size() const { return static_cast<Rank>(sides.size()); }
  void start() {
    for (Rank rank = 0; rank < size(); ++rank) world_.start(rank, side(rank));
  }
  bool finished(std::size_t times = 1) const {
    return std::all_of(sides.begin(), sides.end(),
                       [times](const Side& side) { return side.finished == times; });
  }
  bool end() {
    return world_.drive([&] { return finished() && world_.idle(); });
  }
  std::size_t failed() const {
    return static_cast<std::size_t>(std::count_if(
        sides.begin(), sides.end(), [](const Side& side) { return side.status != 0; }));
  }
  // Of the ranks that had no error.
  std::size_t wrong() {
    std::size_t bad = 0;
    for (Rank rank = 0; rank < size(); ++rank) {
      if (side(rank).status == 0) bad += world_.wrong(rank, side(rank), shape_);
    }
    return bad;
  }

  std::vector<Side> sides;

 private:
  DeviceWorld& world_;
  Shape shape_;
};

Where everywhere(Kind kind, Carry carry) {
  Where where;
  where.in = where.out = kind;
  where.carry = carry;
  return where;
}

std::uint64_t random_seed() {
  return std::random_device{}();
}

}  // namespace

TEST_CASE("every algorithm on any mixture of memory", "[device][engine]") {
  const std::uint64_t seed = random_seed();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  Cudas cudas(most_ranks);
  for (const Algorithm& algorithm : algorithms()) {
    for (Rank size = 2; size <= std::min(most_ranks, algorithm.max_size); ++size) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{61}, std::size_t{300}}) {
        Shape made;
        made.algorithm = &algorithm;
        made.count = count;
        made.segment_bytes = std::array<std::size_t, 3>{0, 64, 200}[random() % 3];
        made.depth = 1 + static_cast<std::uint32_t>(random() % 4);
        made.min_slots = 1 + static_cast<std::uint32_t>(random() % 3);
        made.salt = static_cast<std::uint32_t>(random() % 1000);
        made.average = random() % 3 == 0;
        INFO(algorithm.name << " size " << size << " count " << count << " segment "
                            << made.segment_bytes << " depth " << made.depth);
        DeviceWorld world(size, random(), cudas);
        Calls calls(world, size, made, [&](Rank) { return mixed(random()); });
        calls.start();
        REQUIRE(calls.end());
        CHECK(calls.failed() == 0);
        CHECK(calls.wrong() == 0);
      }
    }
  }
}

TEST_CASE("what is sent and what is returned has arrived", "[device][engine][data]") {
  Cudas cudas(3);
  for (const Carry carry : {Carry::on_device, Carry::through_host}) {
    for (const char* algorithm : {"ring", "recursive_doubling", "direct"}) {
      INFO(algorithm);
      Shape made = shape(algorithm, 5000, 4000, 3);
      made.average = true;
      DeviceWorld world(3, random_seed(), cudas);
      Calls calls(world, 3, made, [&](Rank rank) {
        Where where = everywhere(Kind::device, carry);
        where.in_place = rank == 1;
        if (rank == 2) where.in = Kind::managed;  // copied to where the output is, first
        return where;
      });
      calls.start();
      REQUIRE(calls.end());
      CHECK(calls.failed() == 0);
      CHECK(calls.wrong() == 0);
    }
  }
}

TEST_CASE("where a call is carried", "[device][engine]") {
  Cudas cudas(2);
  const auto run = [&](Kind kind, Carry carry) {
    DeviceWorld world(2, 5, cudas);
    Calls calls(world, 2, shape("recursive_doubling", 500),
                [&](Rank) { return everywhere(kind, carry); });
    const auto launches = cudas.launches();
    const auto copies = cudas.copies();
    calls.start();
    REQUIRE(calls.end());
    CHECK(calls.failed() == 0);
    CHECK(calls.wrong() == 0);
    return std::pair{cudas.launches() - launches, cudas.copies() - copies};
  };
  CHECK(run(Kind::host, Carry::on_device) == std::pair<std::uint64_t, std::uint64_t>{0, 0});
  CHECK(run(Kind::pinned, Carry::on_device) == std::pair<std::uint64_t, std::uint64_t>{0, 0});
  CHECK(run(Kind::device, Carry::through_host) == std::pair<std::uint64_t, std::uint64_t>{0, 4});
  // Each rank: one copy down to send, one up of what came, one reduction.
  CHECK(run(Kind::device, Carry::on_device) == std::pair<std::uint64_t, std::uint64_t>{2, 4});
}

TEST_CASE("whoever sends or fetches device memory says so first", "[device][engine]") {
  static std::size_t sends = 0, fetches = 0;
  Cudas cudas(2);
  const auto run = [&](Kind kind, Carry carry) {
    DeviceWorld world(2, 5, cudas);
    sends = fetches = 0;
    for (Rank rank = 0; rank < 2; ++rank) {
      Comm& comm = world.world.comm(rank);
      comm.sends = [](Comm& comm, Rank to, Gpu&) { sends += to == 1 - comm.rank ? 1 : 0; };
      comm.fetches = [](Comm& comm, Rank from, Gpu&) { fetches += from == 1 - comm.rank ? 1 : 0; };
    }
    Calls calls(world, 2, shape("recursive_doubling", 500),
                [&](Rank) { return everywhere(kind, carry); });
    calls.start();
    REQUIRE(calls.end());
    CHECK(calls.failed() == 0);
    return std::pair{sends, fetches};
  };
  CHECK(run(Kind::device, Carry::on_device) == std::pair<std::size_t, std::size_t>{2, 2});
  CHECK(run(Kind::device, Carry::through_host) == std::pair<std::size_t, std::size_t>{0, 0});
  CHECK(run(Kind::host, Carry::on_device) == std::pair<std::size_t, std::size_t>{0, 0});
}

TEST_CASE("persistent requests on the device start again", "[device][engine]") {
  Cudas cudas(3);
  DeviceWorld world(3, random_seed(), cudas);
  const Shape made = shape("ring", 200, 100, 2);
  std::vector<std::unique_ptr<Calls>> calls;
  for (std::size_t i = 0; i < 5; ++i) {
    calls.push_back(std::make_unique<Calls>(
        world, 3, made, [&](Rank rank) { return mixed(i * 3 + static_cast<std::size_t>(rank)); },
        MessageKind::persistent));
  }
  for (std::size_t start = 1; start <= 3; ++start) {
    for (Rank rank = 0; rank < 3; ++rank) {
      for (std::size_t i = 0; i < calls.size(); ++i) {  // in another order on each rank
        Side& side = calls[(i + static_cast<std::size_t>(rank)) % calls.size()]->side(rank);
        world.fill(rank, side, made);
        ++side.run->round;
        world.start(rank, side);
      }
    }
    REQUIRE(world.drive([&] {
      return std::all_of(calls.begin(), calls.end(),
                         [start](const auto& call) { return call->finished(start); }) &&
             world.idle();
    }));
    for (auto& call : calls) {
      CHECK(call->failed() == 0);
      CHECK(call->wrong() == 0);
    }
  }
}

TEST_CASE("messages come before the plan of a call on the device", "[device][engine]") {
  Cudas cudas(3);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    DeviceWorld world(3, seed, cudas);
    Calls calls(world, 3, shape("ring", 300, 200, 2),
                [&](Rank rank) { return mixed(seed * 3 + static_cast<std::size_t>(rank)); });
    for (const Rank late : {0, 2}) {
      calls.side(late).run->plan = nullptr;
      calls.side(late).run->device.stage = Stage::bound;
    }
    calls.start();
    CHECK_FALSE(world.world.drive([&] { return calls.side(0).finished > 0; }));
    for (const Rank late : {2, 0}) {
      calls.side(late).run->plan = calls.side(late).plan;
      world.world.engine(late).resume(*calls.side(late).run);
    }
    REQUIRE(calls.end());
    CHECK(calls.failed() == 0);
    CHECK(calls.wrong() == 0);
  }
}

TEST_CASE("more calls on the device than the window lets through", "[device][engine]") {
  Cudas cudas(2);
  DeviceWorld world(2, random_seed(), cudas);
  std::vector<std::unique_ptr<Calls>> calls;
  for (std::size_t i = 0; i < window + 6; ++i) {
    Shape made = shape("recursive_doubling", 20);
    made.salt = static_cast<std::uint32_t>(i);
    calls.push_back(std::make_unique<Calls>(
        world, 2, made, [&](Rank rank) { return mixed(i + static_cast<std::size_t>(rank)); }));
    calls.back()->start();
  }
  REQUIRE(world.drive([&] {
    return std::all_of(calls.begin(), calls.end(),
                       [](const auto& call) { return call->finished(); }) &&
           world.idle();
  }));
  for (auto& call : calls) {
    CHECK(call->failed() == 0);
    CHECK(call->wrong() == 0);
  }
}
