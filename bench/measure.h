// Times one form of an allreduce of one size, and checks its result.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "bench/data.h"
#include "bench/served.h"

namespace bench {

enum class Form { blocking, nonblocking, persistent };
const char* name_of(Form form);
std::vector<std::string> form_names();
Form form_named(const std::string& name);  // one of form_names()

// Which way the data of a call goes.
enum class Path {
  direct,        // MPI is given the buffers as they are
  through_host,  // copied to pinned host memory, reduced there by MPI, copied back
};
const char* name_of(Path path);

struct Effort {
  std::uint64_t iterations = 0;  // timed calls per size; 0: as many as fill min_seconds
  double min_seconds = 0.2;
  std::uint64_t warmup = 10;  // calls before the clock starts
  // No further batch begins after so many: where cores are busy with other things, calls take many
  // times what they took when they were first timed.
  double most_seconds = std::numeric_limits<double>::infinity();
};

// What is timed: batches of calls, one right after the other, no barrier between the calls of a
// batch; on the way through the host, the copies too. A sample is the time of a batch divided by
// its calls, on the rank where that is largest.
struct Sample {
  Form form;
  std::size_t bytes;
  std::uint64_t calls;
  double min_us, median_us, p95_us;
  bool served_by_gpuar;  // every call, on every rank
  // What a short message of MPI's own takes between the first two ranks, before and after: how far
  // apart their cores are. Cores of a virtual machine move, and only samples of equal distance
  // compare. 0 with one rank.
  double before_ns, after_ns;
};

// Collective. All results are valid on every rank. Throws std::runtime_error, on every rank, if a
// result is wrong, naming the element.
Sample measure(Form form, Path path, std::size_t bytes, const Effort& effort, Data& data,
               const ServedCounter& served, MPI_Comm comm);

// nccl-tests' definitions, in GB/s (10^9): bytes over time, and that times 2 (ranks - 1) / ranks,
// the data each rank must move over its link.
double algorithm_bandwidth(const Sample& sample);
double bus_bandwidth(const Sample& sample, int ranks);

}  // namespace bench
