// The communicators that calls are made on: MPI_COMM_WORLD and what is made of it, and of that.
// Every rank knows the members of each, also of those that it is not in.
#pragma once

#include <mpi.h>

#include <span>
#include <vector>

#include "test/fuzz/draw.h"

namespace fuzz {

struct Communicator {
  MPI_Comm handle = MPI_COMM_NULL;  // null on ranks that are not in it
  std::vector<int> members;         // ranks of MPI_COMM_WORLD, by rank
};

class Pool {
 public:
  // `root` has the ranks of MPI_COMM_WORLD and stays the caller's.
  explicit Pool(MPI_Comm root);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  // Makes a communicator of one that there is, or frees one. Collective, like the rest.
  void change(Draw& draw);
  // Any but the first.
  void free(std::size_t index);

  [[nodiscard]] std::span<const Communicator> all() const { return communicators_; }
  [[nodiscard]] long made() const { return made_; }

 private:
  void duplicate(const Communicator& parent);
  void split(const Communicator& parent, Draw& draw);
  void create_group(const Communicator& parent, Draw& draw);

  MPI_Comm root_;
  std::vector<Communicator> communicators_;
  long made_ = 0;
};

}  // namespace fuzz
