#include "bench/overlap.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace bench {
namespace {

constexpr int rounds = 15;

// Work for the core alone: no memory, no system call. The compiler must not see through it.
void compute(std::uint64_t steps) {
  static volatile double kept = 1.0;
  double x = kept;
  for (std::uint64_t i = 0; i < steps; ++i) x = x * 0.999999 + 1e-6;
  kept = x;
}

template <class Function>
double seconds_of(Function function) {
  const double start = MPI_Wtime();
  function();
  return MPI_Wtime() - start;
}

double slowest(double mine, MPI_Comm comm) {
  double all = mine;
  MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
  MPI_Bcast(&all, 1, MPI_DOUBLE, 0, comm);
  return all;
}

// The median over the rounds, of the slowest rank of each.
template <class Function>
double median_seconds(MPI_Comm comm, Function function) {
  std::vector<double> samples;
  for (int i = 0; i < rounds; ++i) {
    MPI_Barrier(comm);
    samples.push_back(slowest(seconds_of(function), comm));
  }
  std::sort(samples.begin(), samples.end());
  return samples[rounds / 2];
}

// Steps of compute() that take as long as asked for: the fastest of several timings counts.
std::uint64_t steps_for(double seconds) {
  constexpr std::uint64_t some = 200'000;
  double least = seconds_of([] { compute(some); });
  for (int i = 0; i < 20; ++i) least = std::min(least, seconds_of([] { compute(some); }));
  return static_cast<std::uint64_t>(seconds / std::max(least, 1e-9) * some);
}

void verify(std::size_t count, Data& data, MPI_Comm comm) {
  const int bad = data.first_mismatch(count) ? 1 : 0;
  int any = 0;
  MPI_Reduce(&bad, &any, 1, MPI_INT, MPI_MAX, 0, comm);
  MPI_Bcast(&any, 1, MPI_INT, 0, comm);
  if (any != 0) throw std::runtime_error("a result is wrong beside a computation");
}

}  // namespace

double hidden(const Overlap& overlap) {
  return std::clamp(1 - (overlap.both_us - overlap.compute_us) / overlap.call_us, 0.0, 1.0);
}

Overlap measure_overlap(std::size_t bytes, int tests, const Effort& effort, Data& data,
                        MPI_Comm comm) {
  const std::size_t count = bytes / data.element_bytes();
  MPI_Request request = MPI_REQUEST_NULL;
  const auto start = [&] {
    MPI_Iallreduce(data.in().data(), data.out().data(), static_cast<int>(count), data.type(),
                   data.op(), comm, &request);
  };
  const auto wait = [&] { MPI_Wait(&request, MPI_STATUS_IGNORE); };
  const auto call = [&] {
    start();
    wait();
  };
  data.spoil(count);
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(effort.warmup, 1); ++i) call();
  const double call_seconds = median_seconds(comm, call);
  const std::uint64_t steps = steps_for(call_seconds);
  const auto compute_alone = [&] { compute(steps); };
  const double compute_seconds = median_seconds(comm, compute_alone);
  data.spoil(count);
  const double both_seconds = median_seconds(comm, [&] {
    start();
    const auto slices = static_cast<std::uint64_t>(tests) + 1;
    for (std::uint64_t slice = 0; slice < slices; ++slice) {
      compute(steps * (slice + 1) / slices - steps * slice / slices);
      int done = 0;
      if (slice + 1 < slices) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    wait();
  });
  verify(count, data, comm);
  return {bytes, call_seconds * 1e6, compute_seconds * 1e6, both_seconds * 1e6};
}

}  // namespace bench
