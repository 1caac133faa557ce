// Parts of MPI_COMM_WORLD that tell what a node and what the network takes.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include "bench/measure.h"

namespace bench {

// Some ranks that call allreduce among themselves.
struct Part {
  std::string name;
  int ranks = 1;                   // of the largest such part
  MPI_Comm comm = MPI_COMM_WORLD;  // MPI_COMM_NULL on ranks that take no part
};

// "all": MPI_COMM_WORLD. Besides, "within": every node by itself, all at the same time; "across":
// the first rank of each node.
class Nodes {
 public:
  // Collective. `size`: ranks of a node, consecutive; 0: nodes are ranks that share memory. Throws
  // std::runtime_error, on every rank, unless there are several nodes, one of them with several
  // ranks.
  explicit Nodes(int size);
  ~Nodes();
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  // Within, across, all: the order in which they are to be timed.
  [[nodiscard]] std::vector<Part> parts() const;

 private:
  MPI_Comm within_ = MPI_COMM_NULL;
  MPI_Comm across_ = MPI_COMM_NULL;
  int count_ = 0;
  int largest_ = 0;
};

// Returns once all ranks of MPI_COMM_WORLD have called it, and leaves the cores to them meanwhile.
void wait_for_others();

// Collective over MPI_COMM_WORLD. The slowest of the samples that ranks have; those without one
// (nullptr) take part too. Valid on rank 0.
Sample slowest(const Sample* mine);

// What limits an allreduce of all ranks, in a sentence: from the times of the three parts in their
// median batches, in µs.
std::string verdict(double within_us, double across_us, double all_us);

}  // namespace bench
