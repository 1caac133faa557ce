#include "test/fuzz/batch.h"

#include <unistd.h>

#include <cstdio>
#include <numeric>

namespace fuzz {

using mpitest::Form;

Batch::Batch(const BatchPlan& plan, Pool& pool, int self, std::uint64_t seed,
             const Choices& choices)
    : plan_(plan), pool_(pool), self_(self), own_(seed), choices_(choices) {}

void Batch::run(Totals& totals) {
  ++totals.batches;
  post_all(totals);
  if (plan_.freed) pool_.free(*plan_.freed);
  for (const std::size_t i : any_order()) {
    if (calls_[i]->persistent() && calls_[i]->plan().started_late) calls_[i]->start(&requests_[i]);
  }
  do {
    complete_all();
    check_all();
  } while (start_again());
  for (MPI_Request& request : requests_) {
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }
}

void Batch::post_all(Totals& totals) {
  for (std::size_t i = 0; i < plan_.calls.size(); ++i) {
    if ((choices_.keep >> i & 1U) == 0) continue;
    const CallPlan& planned = plan_.calls[i];
    const Communicator& communicator = pool_.all()[planned.communicator];
    (communicator.members.size() > 1 ? totals.calls : totals.alone) +=
        static_cast<long>(planned.starts);
    totals.elements += static_cast<long long>(planned.count * planned.starts);
    if (communicator.handle == MPI_COMM_NULL) continue;
    calls_.push_back(std::make_unique<Call>(planned, i, communicator, self_));
    requests_.push_back(MPI_REQUEST_NULL);
    unchecked_.push_back(true);
    calls_.back()->post(&requests_.back());
    if (calls_.back()->persistent() && !planned.started_late) {
      calls_.back()->start(&requests_.back());
    }
    idle();
  }
}

// Ranks come late, and look after calls under way meanwhile. Persistent requests are not waited
// for: each rank starts them when it likes, and so waits only once all are started.
void Batch::idle() {
  if (own_.one_in(500)) usleep(static_cast<useconds_t>(own_.below(300)));
  while (own_.one_in(8)) {
    const std::size_t i = own_.below(requests_.size());
    int done = 0;
    if (own_.one_in(4) && calls_[i]->plan().form == Form::nonblocking) {
      MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
    } else {
      MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
    }
  }
}

void Batch::complete_all() {
  const int count = static_cast<int>(requests_.size());
  int done = 0;
  int index = 0;
  switch (own_.below(6)) {
    case 0:
      while (index != MPI_UNDEFINED) {
        MPI_Waitany(count, requests_.data(), &index, MPI_STATUS_IGNORE);
      }
      break;
    case 1:
      complete_some();
      break;
    case 2:
      while (done == 0) MPI_Testall(count, requests_.data(), &done, MPI_STATUSES_IGNORE);
      break;
    case 3:
      wait_in_any_order();
      break;
    default:
      MPI_Waitall(count, requests_.data(), MPI_STATUSES_IGNORE);
  }
}

void Batch::complete_some() {
  const int count = static_cast<int>(requests_.size());
  std::vector<int> indices(requests_.size());
  for (int done = 0; done != MPI_UNDEFINED;) {
    if (own_.one_in(2)) {
      MPI_Waitsome(count, requests_.data(), &done, indices.data(), MPI_STATUSES_IGNORE);
    } else {
      MPI_Testsome(count, requests_.data(), &done, indices.data(), MPI_STATUSES_IGNORE);
    }
  }
}

void Batch::wait_in_any_order() {
  for (const std::size_t i : any_order()) MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
}

bool Batch::start_again() {
  bool any = false;
  for (const std::size_t i : any_order()) {
    if (!calls_[i]->persistent() || !calls_[i]->next_round()) continue;
    calls_[i]->start(&requests_[i]);
    unchecked_[i] = true;
    any = true;
  }
  return any;
}

void Batch::check_all() {
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (!unchecked_[i]) continue;
    unchecked_[i] = false;
    Call& call = *calls_[i];
    const CallPlan& plan = call.plan();
    const bool planted = plan.kind == choices_.planted && plan.count >= choices_.planted_from;
    const std::string wrong = call.wrong(planted ? *choices_.planted_reference : *plan.kind);
    if (wrong.empty()) continue;
    std::printf("DIFFERENCE batch=%llu %s: rank %d: %s\n",
                static_cast<unsigned long long>(plan_.number), call.describe().c_str(), self_,
                wrong.c_str());
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

std::vector<std::size_t> Batch::any_order() {
  std::vector<std::size_t> order(calls_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[own_.below(i)]);
  return order;
}

}  // namespace fuzz
