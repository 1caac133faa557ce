// The in-memory world itself: every message arrives once and whole, in spite of its unkindness.
#include "test/engine/memory_transport.h"

#include <cstring>
#include <deque>
#include <vector>

#include "test/catch.h"

namespace {

using namespace gpuar;

std::vector<std::byte> pattern(std::uint32_t source, std::uint32_t sequence, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(source * 31 + sequence * 7 + i);
  return data;
}

struct Op : TransportOp {
  bool over = false;
  Status status = Status::in_progress;
  std::vector<std::byte> data;
  Op() {
    done = [](TransportOp* op, Status status) {
      auto* self = static_cast<Op*>(op);
      CHECK_FALSE(self->over);
      self->over = true;
      self->status = status;
    };
  }
};

// Takes every arrival in the way that its number in the line says: copy, hold and release, hold
// and fetch later, fetch at once, refuse.
struct Receiver {
  struct Kept {
    MessageHeader header;
    Arrival arrival;
  };

  MemoryTransport* transport = nullptr;
  std::vector<Kept> kept;
  std::deque<Op> fetches;
  std::size_t arrived = 0;
  std::size_t refused = 0;
  bool refuse = false;
  std::vector<std::uint32_t> sequences;

  static Taken take(void* self, const MessageHeader& header, const Arrival& arrival) {
    return static_cast<Receiver*>(self)->take(header, arrival);
  }
  Taken take(const MessageHeader& header, const Arrival& arrival) {
    ++arrived;
    sequences.push_back(header.sequence);
    if (refuse) return ++refused, Taken::consumed;
    if (!arrival.rendezvous) check(header, arrival);
    if (!arrival.holdable) return Taken::consumed;
    if (arrived % 2 == 0) {
      finish({header, arrival});
    } else {
      kept.push_back({header, arrival});
    }
    return Taken::held;
  }
  static void check(const MessageHeader& header, const Arrival& arrival) {
    const auto expected = pattern(header.source, header.sequence, arrival.bytes);
    CHECK((arrival.bytes == 0 || std::memcmp(arrival.data, expected.data(), arrival.bytes) == 0));
  }
  void finish(const Kept& item) {
    if (!item.arrival.rendezvous) return transport->release(item.arrival);
    Op& op = fetches.emplace_back();
    op.header = item.header;
    op.data.resize(item.arrival.bytes);
    CHECK(transport->fetch(item.arrival, op, op.data.data(), op.data.size()) ==
          Status::in_progress);
  }
  void finish_kept() {
    while (!kept.empty()) {
      finish(kept.back());
      kept.pop_back();
    }
  }
};

void run_until_idle(MemoryWorld& world, std::vector<Receiver>& receivers) {
  for (int round = 0; round < 100000 && !world.idle(); ++round) {
    world.progress_all();
    if (round % 10 == 9)
      for (auto& receiver : receivers) receiver.finish_kept();
  }
  REQUIRE(world.idle());
}

std::vector<Receiver> open_all(MemoryWorld& world) {
  std::vector<Receiver> receivers(world.size());
  for (std::uint32_t r = 0; r < world.size(); ++r) {
    receivers[r].transport = &world.rank(r);
    world.rank(r).open({&Receiver::take, &receivers[r]});
  }
  return receivers;
}

Status send(MemoryWorld& world, std::uint32_t from, std::uint32_t to, std::uint32_t sequence,
            std::size_t bytes, Op& op) {
  op.header.source = from;
  op.header.sequence = sequence;
  op.data = pattern(from, sequence, bytes);
  return world.rank(from).send(to, op, op.data.data(), op.data.size());
}

}  // namespace

TEST_CASE("memory world: every message arrives once and whole", "[engine]") {
  const auto seed = GENERATE(range(1u, 21u));
  INFO("seed " << seed);
  MemoryWorld world(4, seed);
  auto receivers = open_all(world);
  std::deque<Op> sends;
  for (std::uint32_t sequence = 0; sequence < 30; ++sequence)
    for (std::uint32_t from = 0; from < 4; ++from)
      for (std::uint32_t to = 0; to < 4; ++to) {
        if (from == to) continue;
        Op& op = sends.emplace_back();
        if (send(world, from, to, sequence, std::size_t{sequence} * 5, op) == Status::ok) {
          op.over = true;
          op.status = Status::ok;
          std::fill(op.data.begin(), op.data.end(), std::byte{0xff});  // ours again
        }
      }
  run_until_idle(world, receivers);
  for (const auto& op : sends) CHECK(op.status == Status::ok);
  bool overtaken = false;
  for (const auto& receiver : receivers) {
    CHECK(receiver.arrived == 90);
    overtaken = overtaken || !std::is_sorted(receiver.sequences.begin(), receiver.sequences.end());
    for (const auto& op : receiver.fetches) {
      CHECK(op.status == Status::ok);
      CHECK(op.data == pattern(op.header.source, op.header.sequence, op.data.size()));
    }
  }
  CHECK(overtaken);
}

TEST_CASE("memory world: the same seed gives the same run", "[engine]") {
  std::vector<std::uint32_t> order[2];
  for (auto& sequences : order) {
    MemoryWorld world(2, 7);
    auto receivers = open_all(world);
    std::deque<Op> sends;
    for (std::uint32_t i = 0; i < 40; ++i)
      static_cast<void>(send(world, 0, 1, i, std::size_t{i} * 4, sends.emplace_back()));
    run_until_idle(world, receivers);
    sequences = receivers[1].sequences;
  }
  CHECK(order[0] == order[1]);
}

TEST_CASE("memory world: refused and cancelled messages still complete", "[engine]") {
  const auto seed = GENERATE(range(1u, 11u));
  INFO("seed " << seed);
  MemoryWorld world(2, seed);
  auto receivers = open_all(world);
  receivers[1].refuse = true;
  std::deque<Op> sends;
  std::size_t cancelled = 0;
  for (std::uint32_t i = 0; i < 20; ++i) {
    Op& op = sends.emplace_back();
    const bool under_way = send(world, 0, 1, i, 1000, op) == Status::in_progress;
    REQUIRE(under_way);
    if (i % 2 == 0) world.rank(0).cancel(op);
  }
  run_until_idle(world, receivers);
  for (const auto& op : sends) {
    CHECK(op.over);
    if (op.status == Status::aborted) ++cancelled;
  }
  CHECK(cancelled == 10);
  CHECK(receivers[1].refused >= 10);
}

TEST_CASE("memory world: a fetch of the wrong length says truncated", "[engine]") {
  MemoryWorld world(2, 3);
  auto receivers = open_all(world);
  Op sent;
  Op fetched;
  const bool under_way = send(world, 0, 1, 1, 1000, sent) == Status::in_progress;
  REQUIRE(under_way);
  while (receivers[1].kept.empty()) world.progress_all();
  fetched.data.resize(999);
  CHECK(world.rank(1).fetch(receivers[1].kept.front().arrival, fetched, fetched.data.data(), 999) ==
        Status::truncated);
  receivers[1].kept.clear();
  run_until_idle(world, receivers);
  CHECK(sent.over);
  CHECK_FALSE(fetched.over);
}
