// How much of a nonblocking allreduce a computation hides.
#pragma once

#include <mpi.h>

#include <cstddef>

#include "bench/data.h"
#include "bench/measure.h"

namespace bench {

// Times on the slowest rank, medians over the rounds.
struct Overlap {
  std::size_t bytes;
  double call_us;     // MPI_Iallreduce and MPI_Wait, nothing between them
  double compute_us;  // the computation alone: as long as the call took
  double both_us;     // the computation between MPI_Iallreduce and MPI_Wait
};

// The share of the call that the computation hid, 0 to 1, as the OSU benchmarks define it: what the
// two take together beyond the computation was not hidden.
double hidden(const Overlap& overlap);

// Collective; valid on every rank. `tests` calls of MPI_Test are spread over the computation.
// Throws std::runtime_error, on every rank, if a result is wrong.
Overlap measure_overlap(std::size_t bytes, int tests, const Effort& effort, Data& data,
                        MPI_Comm comm);

}  // namespace bench
