// One planned call on one rank: its buffers, what it sends, and whether the result is right.
#pragma once

#include <string>

#include "test/fuzz/plan.h"
#include "test/mpi/harness.h"

namespace fuzz {

class Call {
 public:
  // `index` is its place in the batch.
  Call(const CallPlan& plan, std::size_t index, const Communicator& communicator, int self);

  // The call, or the making of its request; a persistent one is started by start().
  void post(MPI_Request* request);
  void start(MPI_Request* request);
  // Values for the next start; false if there is none.
  bool next_round();

  // Empty if the result is right and nothing else was touched. `reference` says what is right.
  [[nodiscard]] std::string wrong(const Kind& reference);

  [[nodiscard]] const CallPlan& plan() const { return plan_; }
  [[nodiscard]] bool persistent() const { return plan_.form == mpitest::Form::persistent; }
  // The call in words.
  [[nodiscard]] std::string describe() const;

 private:
  void fill();
  std::string first_bytes();  // of the result
  [[nodiscard]] Sample sample() const { return {plan_.salt + round_ * 1000003, plan_.count}; }
  [[nodiscard]] bool in_place() const { return plan_.place == mpitest::Place::in_place; }
  // What MPI is given.
  std::byte* base(mpitest::Guarded& buffer) { return buffer.data() - extent_.first; }

  const CallPlan& plan_;
  std::size_t index_;
  MPI_Comm handle_;
  std::vector<int> members_;  // the communicator may be gone when the result is there
  int self_;
  Extent extent_;
  mpitest::Guarded in_;
  mpitest::Guarded out_;
  std::vector<std::byte> sent_;
  Handles handles_;
  std::size_t round_ = 0;
};

}  // namespace fuzz
