#include "bench/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace bench {
namespace {

// Two times are told apart from this factor on: repetitions differ by some percent.
constexpr double clearly = 1.5;

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

// By MPI's means other than allreduce, which is what is measured.
int reduced(int mine, MPI_Op op) {
  int all = 0;
  MPI_Reduce(&mine, &all, 1, MPI_INT, op, 0, MPI_COMM_WORLD);
  MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return all;
}

}  // namespace

Nodes::Nodes(int size) {
  const int rank = rank_in(MPI_COMM_WORLD);
  if (size > 0) {
    MPI_Comm_split(MPI_COMM_WORLD, rank / size, rank, &within_);
  } else {
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &within_);
  }
  const bool first = rank_in(within_) == 0;
  MPI_Comm_split(MPI_COMM_WORLD, first ? 0 : MPI_UNDEFINED, rank, &across_);
  count_ = reduced(first ? 1 : 0, MPI_SUM);
  largest_ = reduced(size_of(within_), MPI_MAX);
  if (count_ > 1 && largest_ > 1) return;
  throw std::runtime_error(
      fmt::format("nothing to compare: several nodes are wanted, one of them of several ranks, and "
                  "there are {} of at most {}; --node-size makes others",
                  count_, largest_));
}

Nodes::~Nodes() {
  if (across_ != MPI_COMM_NULL) MPI_Comm_free(&across_);
  MPI_Comm_free(&within_);
}

std::vector<Part> Nodes::parts() const {
  return {{"within", largest_, within_},
          {"across", count_, across_},
          {"all", size_of(MPI_COMM_WORLD), MPI_COMM_WORLD}};
}

void wait_for_others() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Sample slowest(const Sample* mine) {
  Sample sample = mine != nullptr ? *mine : Sample{};
  const std::array<double, 3> own{sample.min_us, sample.median_us, sample.p95_us};
  std::array<double, 3> most{};
  MPI_Reduce(own.data(), most.data(), 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  const int elsewhere = mine != nullptr && !mine->served_by_gpuar ? 1 : 0;
  const bool served = reduced(elsewhere, MPI_MAX) == 0;
  sample.min_us = most[0];
  sample.median_us = most[1];
  sample.p95_us = most[2];
  sample.served_by_gpuar = served;
  return sample;
}

std::string verdict(double within_us, double across_us, double all_us) {
  const double parts = within_us + across_us;
  const std::string times = fmt::format(
      "within a node {:.1f} us, across the nodes {:.1f}, all {:.1f}", within_us, across_us, all_us);
  if (all_us > clearly * parts) {
    return fmt::format("neither limits: all together take {:.1f} times the sum of both ({})",
                       all_us / parts, times);
  }
  if (across_us > clearly * within_us) return "the network limits: " + times;
  if (within_us > clearly * across_us) return "the nodes limit: " + times;
  return "nodes and network limit about alike: " + times;
}

}  // namespace bench
