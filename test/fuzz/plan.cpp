#include "test/fuzz/plan.h"

#include <algorithm>

namespace fuzz {
namespace {

using mpitest::Form;
using mpitest::Place;

constexpr std::size_t most_calls = 60;  // the option `keep` has a bit for each

// One more or less than, or just, `n`.
std::size_t around(std::size_t n, Draw& draw) {
  return n + draw.below(3) - std::min<std::size_t>(n, 1);
}

// Where something changes: eager and rendezvous, segments, algorithms, the device.
std::size_t threshold_bytes(Draw& draw) {
  return std::size_t{1} << (6 + draw.below(13));
}

std::size_t draw_count(const Kind& kind, std::size_t ranks, const Limits& limits, Draw& draw) {
  const std::size_t element = kind.element_bytes();
  std::size_t count = 0;
  std::size_t bytes = limits.bytes;
  switch (draw.below(16)) {
    case 0:
    case 1:
    case 2:
      count = draw.below(5);
      break;
    case 3:
    case 4:
    case 5:
    case 6:
      count = draw.below(64);
      break;
    case 7:
    case 8:
    case 9:
      count = around(std::size_t{1} << draw.below(13), draw);
      break;
    case 10:
    case 11:
      count = around(threshold_bytes(draw) / element, draw);
      break;
    case 12:
    case 13:
      count = around(ranks * (1 + draw.below(40)), draw);
      break;
    case 14:
      count = draw.below(std::size_t{1} << (2 + draw.below(12)));
      break;
    default:
      if (draw.one_in(24)) bytes = limits.huge_bytes;
      count = draw.below(bytes / element + 1);
  }
  return std::min({count, bytes / element, kind.most(), limits.most});
}

CallPlan draw_call(const Pool& pool, std::span<const std::unique_ptr<Kind>> kinds,
                   const Limits& limits, Draw& draw) {
  CallPlan call;
  call.communicator = draw.one_in(2) ? 0 : draw.below(pool.all().size());
  call.kind = kinds[draw.below(kinds.size())].get();
  // Few blocking ones: each is a point where all ranks meet, and little is under way behind it.
  call.form = draw.one_in(10) ? Form::blocking : mpitest::all_forms[1 + draw.below(2)];
  call.place = draw.one_in(3) ? Place::in_place : Place::apart;
  call.count = draw_count(*call.kind, pool.all()[call.communicator].members.size(), limits, draw);
  call.shift = draw.one_in(8) ? draw.below(16) : 0;
  call.starts = call.form == Form::persistent ? 1 + draw.below(6) : 1;
  call.started_late = draw.one_in(2);
  call.handles_freed_at_once = draw.one_in(3);
  call.salt = draw.bits() >> 24U;
  return call;
}

}  // namespace

std::size_t draw_changes(std::uint64_t seed, std::uint64_t number, Lifetimes lifetimes) {
  Draw draw(mpitest::mix(seed, number, 1));
  if (lifetimes == Lifetimes::fixed) return 0;
  if (lifetimes == Lifetimes::storm) return 1 + draw.below(24);
  return draw.one_in(4) ? 1 + draw.below(3) : 0;
}

BatchPlan draw_batch(std::uint64_t seed, std::uint64_t number, const Pool& pool,
                     std::span<const std::unique_ptr<Kind>> kinds, const Limits& limits) {
  Draw draw(mpitest::mix(seed, number, 2));
  BatchPlan batch;
  batch.number = number;
  const std::size_t calls = 1 + draw.below(most_calls);
  for (std::size_t i = 0; i < calls; ++i) {
    batch.calls.push_back(draw_call(pool, kinds, limits, draw));
  }
  if (limits.lifetimes != Lifetimes::fixed && pool.all().size() > 1 && draw.one_in(8)) {
    batch.freed = 1 + draw.below(pool.all().size() - 1);
  }
  for (CallPlan& call : batch.calls) {
    // MPI lets calls end that are under way, and says nothing of later starts.
    if (call.communicator == batch.freed) call.starts = 1;
    if (call.communicator == batch.freed) call.started_late = false;
  }
  return batch;
}

}  // namespace fuzz
