// Carries out a batch: calls of all forms, several under way at once, completed in a way and an
// order of each rank's own, every byte checked.
#pragma once

#include <string>

#include "test/fuzz/call.h"

namespace fuzz {

struct Choices {
  std::uint64_t keep = ~std::uint64_t{0};  // a bit for each call of a batch: others are left out
  // A planted fault: from `planted_from` elements on, the results of one kind are compared with
  // another's.
  const Kind* planted = nullptr;
  const Kind* planted_reference = nullptr;
  std::size_t planted_from = 0;
};

struct Totals {
  long batches = 0;
  long calls = 0;  // of two ranks or more; every start of a persistent request is one
  long alone = 0;  // of one rank
  long long elements = 0;
};

// The first difference ends the job with one line.
class Batch {
 public:
  // `seed` is that of this rank's own choices.
  Batch(const BatchPlan& plan, Pool& pool, int self, std::uint64_t seed, const Choices& choices);

  void run(Totals& totals);

 private:
  void post_all(Totals& totals);
  void idle();
  void complete_all();
  void complete_some();
  void wait_in_any_order();
  void check_all();
  // All persistent requests that have a start to come, in any order; false if none has.
  bool start_again();
  // This rank's calls in an order of its own.
  std::vector<std::size_t> any_order();

  const BatchPlan& plan_;
  Pool& pool_;
  int self_;
  Draw own_;
  const Choices& choices_;
  std::vector<std::unique_ptr<Call>> calls_;  // those that this rank is in
  std::vector<MPI_Request> requests_;         // of these
  std::vector<bool> unchecked_;               // whether a result is to come
};

}  // namespace fuzz
