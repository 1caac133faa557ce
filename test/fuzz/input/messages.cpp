// Messages that nobody should send, between those of calls under way: any header, any length. The
// engine must stay whole (the address sanitizer and the transport's own checks watch), and calls of
// a communicator that no foreign message names must end with the right result.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdio>
#include <cstdlib>
#include <list>

#include "test/engine/engine_world.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

constexpr Rank ranks = 3;
constexpr std::size_t calls_of_a_rank = 3;

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

struct Foreign {
  TransportOp op;
  std::vector<std::byte> payload;
};

class Script {
 public:
  explicit Script(FuzzedDataProvider& in)
      : in_(in), world_(ranks, in.ConsumeIntegral<std::uint64_t>()) {
    const auto all = algorithms();
    options_.algorithm = &all[in_.ConsumeIntegralInRange<std::size_t>(0, all.size() - 1)];
    options_.count = in_.ConsumeIntegralInRange<std::size_t>(0, 200);
    options_.segment_bytes = in_.ConsumeIntegralInRange<std::size_t>(0, 400);
    options_.depth = in_.ConsumeIntegralInRange<std::uint32_t>(1, 4);
    world_.add_all_ranks();
  }

  void run() {
    while (in_.remaining_bytes() > 0) step();
    for (Rank rank = 0; rank < ranks; ++rank) {
      while (calls_[at(rank)].size() < calls_of_a_rank) start(rank);
    }
    // What a foreign message took the place of may never come: then nobody waits for the end.
    const int rounds = named_ ? 200 : 20000;
    for (int round = 0; round < rounds && !over(); ++round) progress();
    if (!named_ && !over()) broken("calls do not end, although no message was for them");
    for (Rank rank = 0; rank < ranks; ++rank) {
      for (Call& call : calls_[at(rank)]) {
        if (!named_ && (call.status != 0 || world_.wrong(rank, call, options_) > 0)) {
          broken("a wrong result, although no message was for its communicator");
        }
      }
      world_.engine(rank).remove(world_.comm(rank));
    }
  }

 private:
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  Rank some_rank() { return in_.ConsumeIntegralInRange<Rank>(0, ranks - 1); }

  void step() {
    switch (in_.ConsumeIntegralInRange<int>(0, 3)) {
      case 0:
        start(some_rank());
        break;
      case 1:
        for (int rounds = in_.ConsumeIntegralInRange<int>(1, 30); rounds > 0; --rounds) progress();
        break;
      default:
        send_foreign();
    }
  }

  // The program's calls first, then one of a persistent request: alike on all ranks.
  void start(Rank rank) {
    auto& mine = calls_[at(rank)];
    if (mine.size() == calls_of_a_rank) return;
    const bool last = mine.size() + 1 == calls_of_a_rank;
    Call& call = mine.emplace_back();
    world_.bind(rank, call, options_, last ? MessageKind::persistent : MessageKind::call);
    world_.engine(rank).start(*call.run);
  }

  // Once, on every rank.
  void progress() {
    world_.drive([] { return true; });
  }

  bool over() const {
    for (const auto& mine : calls_) {
      for (const Call& call : mine) {
        if (call.finished == 0) return false;
      }
    }
    return true;
  }

  std::uint32_t small_or_any(std::uint32_t bound) {
    return in_.ConsumeBool() ? in_.ConsumeIntegralInRange<std::uint32_t>(0, bound)
                             : in_.ConsumeIntegral<std::uint32_t>();
  }

  MessageHeader any_header() {
    MessageHeader header;
    header.comm =
        in_.ConsumeBool() ? CommId{7, 11} : CommId{7, in_.ConsumeIntegral<std::uint8_t>()};
    header.sequence = small_or_any(calls_of_a_rank);
    header.source = small_or_any(ranks);
    header.segment = small_or_any(8);
    header.message = in_.ConsumeIntegral<std::uint16_t>();
    header.kind_and_round = in_.ConsumeIntegral<std::uint16_t>();
    if (in_.ConsumeBool()) header.message %= 4;
    if (in_.ConsumeBool()) header.kind_and_round &= 0xc003;
    return header;
  }

  void send_foreign() {
    Foreign& foreign = foreign_.emplace_back();
    foreign.op.header = any_header();
    foreign.op.done = [](TransportOp*, Status) {};
    foreign.payload.resize(in_.ConsumeIntegralInRange<std::size_t>(0, 2000));
    named_ = named_ || foreign.op.header.comm == CommId{7, 11};
    const Rank from = some_rank();
    const Rank to = (from + in_.ConsumeIntegralInRange<Rank>(1, ranks - 1)) % ranks;
    world_.world.rank(static_cast<std::uint32_t>(from))
        .send(static_cast<std::uint32_t>(to), foreign.op, foreign.payload.data(),
              foreign.payload.size());
  }

  FuzzedDataProvider& in_;
  std::array<std::list<Call>, ranks> calls_;
  std::list<Foreign> foreign_;
  CallOptions options_;
  EngineWorld world_;
  bool named_ = false;  // a foreign message names the communicator
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider in(data, size);
  Script(in).run();
  return 0;
}
