// What a batch does, drawn from the seed: every rank draws the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "test/fuzz/draw.h"
#include "test/fuzz/kinds.h"
#include "test/fuzz/pool.h"

namespace fuzz {

struct CallPlan {
  std::size_t communicator = 0;  // in the pool
  const Kind* kind = nullptr;
  mpitest::Form form = mpitest::Form::blocking;
  mpitest::Place place = mpitest::Place::apart;
  std::size_t count = 0;
  std::size_t shift = 0;      // bytes off alignment
  std::size_t starts = 1;     // of a persistent request
  bool started_late = false;  // behind the other calls, in another order on each rank
  bool handles_freed_at_once = false;
  std::uint64_t salt = 0;
};

struct BatchPlan {
  std::uint64_t number = 0;
  std::size_t changes = 0;  // of the pool, before the calls
  std::vector<CallPlan> calls;
  std::optional<std::size_t> freed;  // a communicator, while its calls are under way
};

// How often communicators come and go: never, in one batch of four, or a dozen with every batch.
enum class Lifetimes { fixed, calm, storm };

struct Limits {
  std::size_t most = 0;        // elements of a call
  std::size_t bytes = 0;       // of a call's contribution, but for
  std::size_t huge_bytes = 0;  // one call in some hundreds
  Lifetimes lifetimes = Lifetimes::calm;
};

std::size_t draw_changes(std::uint64_t seed, std::uint64_t number, Lifetimes lifetimes);

// After the changes: on the communicators that there are then.
BatchPlan draw_batch(std::uint64_t seed, std::uint64_t number, const Pool& pool,
                     std::span<const std::unique_ptr<Kind>> kinds, const Limits& limits);

}  // namespace fuzz
