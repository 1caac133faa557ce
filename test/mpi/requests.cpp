// Nonblocking and persistent calls: many outstanding, any order of completion, handles freed early,
// nothing that waits where MPI says that nothing waits.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>

#include "harness.h"
#include "persistent.h"

using namespace mpitest;

namespace {

// One sum of doubles with values of its own, started, completed and checked at different times.
class Sum {
 public:
  Sum(Case& c, MPI_Comm comm, std::size_t count, std::uint64_t salt)
      : case_(c), comm_(comm), salt_(salt), in_(count), out_(count) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    refill(0);
  }

  // New values for the next start.
  void refill(std::uint64_t round) {
    round_ = round;
    for (std::size_t i = 0; i < in_.size(); ++i) in_[i] = value(rank_, i);
    std::fill(out_.begin(), out_.end(), -1.0);
  }

  void post(MPI_Request* request) {
    MPI_Iallreduce(in_.data(), out_.data(), static_cast<int>(in_.size()), MPI_DOUBLE, MPI_SUM,
                   comm_, request);
  }
  void init(MPI_Request* request) {
    persistent_allreduce_init(in_.data(), out_.data(), static_cast<int>(in_.size()), MPI_DOUBLE,
                              MPI_SUM, comm_, request);
  }
  void call() {
    MPI_Allreduce(in_.data(), out_.data(), static_cast<int>(in_.size()), MPI_DOUBLE, MPI_SUM,
                  comm_);
  }

  void check(const char* when) const {
    for (std::size_t i = 0; i < out_.size(); ++i) {
      double expected = 0;
      for (int rank = 0; rank < size_; ++rank) expected += value(rank, i);
      if (!case_.expect(out_[i] == expected, when, ": call ", salt_, " round ", round_, " count ",
                        out_.size(), " element ", i, ": got ", out_[i], ", expected ", expected)) {
        return;
      }
    }
  }

 private:
  [[nodiscard]] double value(int rank, std::size_t i) const {
    return static_cast<double>(
        mix(case_.seed + salt_ * 131 + round_, static_cast<std::uint64_t>(rank), i) % 1000);
  }

  Case& case_;
  MPI_Comm comm_;
  std::uint64_t salt_;
  std::uint64_t round_ = 0;
  int rank_ = 0;
  int size_ = 0;
  std::vector<double> in_;
  std::vector<double> out_;
};

constexpr std::size_t some_counts[] = {1, 3, 17, 128, 1000, 5000, 20000};

std::size_t some_count(std::size_t i) {
  return some_counts[i % std::size(some_counts)];
}

using Sums = std::vector<std::unique_ptr<Sum>>;

Sums make_sums(Case& c, MPI_Comm comm, std::size_t how_many, std::uint64_t first_salt = 0) {
  Sums sums;
  for (std::size_t i = 0; i < how_many; ++i) {
    sums.push_back(std::make_unique<Sum>(c, comm, some_count(i), first_salt + i));
  }
  return sums;
}

using Finish = void (*)(const Case&, std::vector<MPI_Request>&);

void finish_with_waitall(const Case& /*c*/, std::vector<MPI_Request>& requests) {
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}
void finish_with_waitany(const Case& /*c*/, std::vector<MPI_Request>& requests) {
  int index = 0;
  do {
    MPI_Waitany(static_cast<int>(requests.size()), requests.data(), &index, MPI_STATUS_IGNORE);
  } while (index != MPI_UNDEFINED);
}
void finish_with_testsome(const Case& /*c*/, std::vector<MPI_Request>& requests) {
  std::vector<int> indices(requests.size());
  int done = 0;
  do {
    MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &done, indices.data(),
                 MPI_STATUSES_IGNORE);
  } while (done != MPI_UNDEFINED);
}
void finish_backwards(const Case& /*c*/, std::vector<MPI_Request>& requests) {
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) {
    MPI_Wait(&*request, MPI_STATUS_IGNORE);
  }
}
void finish_shuffled(const Case& c, std::vector<MPI_Request>& requests) {
  for (const std::size_t i : shuffled(c, requests.size(), 7)) {
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  }
}

// Hundreds of calls under way, with blocking ones and other nonblocking collectives between them.
void outstanding(Case& c, Finish finish) {
  const auto how_many = static_cast<std::size_t>(option("calls", 400));
  const Sums sums = make_sums(c, c.comm, how_many);
  Sum between(c, c.comm, 50, 9999);
  std::vector<MPI_Request> requests;
  std::vector<std::array<int, 4>> broadcasts(how_many);
  std::vector<int> gathered(how_many * static_cast<std::size_t>(c.size), -1);
  std::vector<int> contributions(how_many);
  for (std::size_t i = 0; i < how_many; ++i) {
    const int root = static_cast<int>(i) % c.size;
    sums[i]->post(&requests.emplace_back());
    if (i % 5 == 1) MPI_Ibarrier(c.comm, &requests.emplace_back());
    if (i % 5 == 2) {
      broadcasts[i].fill(c.rank == root ? static_cast<int>(i) : -1);
      MPI_Ibcast(broadcasts[i].data(), 4, MPI_INT, root, c.comm, &requests.emplace_back());
    }
    if (i % 5 == 3) {
      contributions[i] = c.rank + static_cast<int>(i);
      MPI_Igather(&contributions[i], 1, MPI_INT, &gathered[i * static_cast<std::size_t>(c.size)], 1,
                  MPI_INT, root, c.comm, &requests.emplace_back());
    }
    if (i % 25 == 24) {
      between.refill(i);
      between.call();
      between.check("blocking call between nonblocking ones");
    }
  }
  finish(c, requests);
  for (std::size_t i = 0; i < how_many; ++i) {
    sums[i]->check("after completion");
    if (i % 5 == 2) c.expect(broadcasts[i][3] == static_cast<int>(i), "MPI_Ibcast ", i, " wrong");
    if (i % 5 == 3 && c.rank == static_cast<int>(i) % c.size) {
      for (int rank = 0; rank < c.size; ++rank) {
        const std::size_t at =
            i * static_cast<std::size_t>(c.size) + static_cast<std::size_t>(rank);
        c.expect(gathered[at] == rank + static_cast<int>(i), "MPI_Igather ", i, " wrong");
      }
    }
  }
}

template <Finish finish>
void many_outstanding(Case& c) {
  outstanding(c, finish);
}

void two_thousand_small_backwards(Case& c) {
  std::vector<std::unique_ptr<Sum>> sums;
  std::vector<MPI_Request> requests(2000);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sums.push_back(std::make_unique<Sum>(c, c.comm, 1 + i % 3, i));
    sums.back()->post(&requests[i]);
  }
  finish_backwards(c, requests);
  for (const auto& sum : sums) sum->check("backwards");
}

// --- persistent ---------------------------------------------------------------------------------

void persistent_fifty_starts(Case& c) {
  for (const std::size_t count : some_counts) {
    Sum sum(c, c.comm, count, count);
    MPI_Request request = MPI_REQUEST_NULL;
    sum.init(&request);
    for (std::uint64_t round = 1; round <= 50; ++round) {
      sum.refill(round);
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      sum.check("after wait");
      c.expect(request != MPI_REQUEST_NULL, "MPI_Wait freed a persistent request");
    }
    MPI_Request_free(&request);
    c.expect(request == MPI_REQUEST_NULL, "MPI_Request_free left the handle");
  }
}

void persistent_started_in_different_orders(Case& c) {
  constexpr std::size_t how_many = 7;
  const Sums sums = make_sums(c, c.comm, how_many);
  Sum between(c, c.comm, 40, 777);
  std::vector<MPI_Request> requests(how_many);
  for (std::size_t i = 0; i < how_many; ++i) sums[i]->init(&requests[i]);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    for (const auto& sum : sums) sum->refill(round);
    for (const std::size_t i : shuffled(c, how_many, round)) MPI_Start(&requests[i]);
    if (round % 3 == 0) {
      between.refill(round);
      between.call();
      between.check("blocking call between starts");
    }
    for (const std::size_t i : shuffled(c, how_many, round + 1000)) {
      MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      sums[i]->check("started in another order on each rank");
    }
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

void persistent_startall(Case& c) {
  constexpr std::size_t how_many = 5;
  const Sums sums = make_sums(c, c.comm, how_many);
  std::vector<MPI_Request> requests(how_many);
  for (std::size_t i = 0; i < how_many; ++i) sums[i]->init(&requests[i]);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    for (const auto& sum : sums) sum->refill(round);
    MPI_Startall(static_cast<int>(how_many), requests.data());
    MPI_Waitall(static_cast<int>(how_many), requests.data(), MPI_STATUSES_IGNORE);
    for (const auto& sum : sums) sum->check("MPI_Startall");
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

// One request runs ahead: some are started often, others once, others never.
void persistent_started_unequally(Case& c) {
  Sum often(c, c.comm, 100, 1);
  Sum once(c, c.comm, 3000, 2);
  Sum never(c, c.comm, 10, 3);
  std::array<MPI_Request, 3> requests{};
  often.init(&requests[0]);
  once.init(&requests[1]);
  never.init(&requests[2]);
  once.refill(1);
  MPI_Start(&requests[1]);
  for (std::uint64_t round = 1; round <= 30; ++round) {
    often.refill(round);
    MPI_Start(&requests[0]);
    int done = 0;
    while (done == 0) MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
    often.check("started often");
  }
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  once.check("started once");
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

void persistent_count_zero(Case& c) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int rc = persistent_allreduce_init(nullptr, nullptr, 0, MPI_INT, MPI_SUM, c.comm, &request);
  c.expect(rc == MPI_SUCCESS && request != MPI_REQUEST_NULL, "init with count 0: error ", rc);
  for (int round = 0; round < 10; ++round) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    c.expect(request != MPI_REQUEST_NULL, "MPI_Wait freed a persistent request of count 0");
  }
  MPI_Request_free(&request);
  c.expect(request == MPI_REQUEST_NULL, "MPI_Request_free left the handle");
}

// --- handles freed early ------------------------------------------------------------------------

void add_pairs(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < 2 * *count; ++i) {
    static_cast<std::int32_t*>(inout)[i] += static_cast<std::int32_t*>(in)[i];
  }
}

// Makes and frees types and operations, so that freed ones are likely to be overwritten.
void churn_handles() {
  for (int i = 1; i < 20; ++i) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_vector(i, 1, i + 3, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create([](void*, void*, int*, MPI_Datatype*) { std::abort(); }, 1, &op);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
  }
}

// After MPIX_Allreduce_init, Open MPI 4.1.4 itself crashes here: that case runs only by name.
template <Form form>
void type_and_op_freed_at_once(Case& c) {
  constexpr std::size_t count = 3000;
  for (int round = 0; round < 20; ++round) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_INT32_T, &type);
    MPI_Type_commit(&type);
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(add_pairs, 1, &op);
    std::vector<std::int32_t> in(2 * count, c.rank + round);
    std::vector<std::int32_t> out(2 * count, -1);
    MPI_Request request = MPI_REQUEST_NULL;
    if (c.rank == round % c.size) sleep_seconds(0.002);
    start_allreduce(form, in.data(), out.data(), count, type, op, c.comm, &request);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    churn_handles();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (form == Form::persistent) {
      churn_handles();
      std::fill(out.begin(), out.end(), -1);
      MPI_Start(&request);
      churn_handles();
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Request_free(&request);
    }
    const std::int32_t expected = c.size * (c.size - 1) / 2 + c.size * round;
    const auto wrong =
        std::find_if(out.begin(), out.end(), [&](std::int32_t x) { return x != expected; });
    c.expect(wrong == out.end(), name_of(form), ", round ", round, ", element ",
             wrong - out.begin());
  }
}

// Legal, but stock Open MPI 4.1.4 crashes: runs only by name.
void communicator_freed_while_active(Case& c) {
  for (int round = 0; round < 20; ++round) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(c.comm, &comm);
    const Sums sums = make_sums(c, comm, std::size(some_counts), static_cast<std::uint64_t>(round));
    std::vector<MPI_Request> requests(sums.size());
    if (c.rank == round % c.size) sleep_seconds(0.005);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i]->post(&requests[i]);
    MPI_Comm_free(&comm);
    c.expect(comm == MPI_COMM_NULL, "MPI_Comm_free left the handle");
    MPI_Comm other = MPI_COMM_NULL;
    if (round % 2 == 0) MPI_Comm_dup(c.comm, &other);
    finish_backwards(c, requests);
    for (const auto& sum : sums) sum->check("communicator freed while active");
    if (other != MPI_COMM_NULL) MPI_Comm_free(&other);
  }
}

// --- nothing waits ------------------------------------------------------------------------------

// One rank comes late; the others must get out of every call at once. The bound leaves room for a
// busy machine: a call that waits for the late rank takes about a second.
constexpr double late_seconds = 1.0;
constexpr double prompt_seconds = 0.25;

void late_rank(Case& c, Form form, std::size_t count) {
  Sum sum(c, c.comm, count, count);
  MPI_Request request = MPI_REQUEST_NULL;
  if (form == Form::persistent) sum.init(&request);
  MPI_Barrier(c.comm);
  if (c.rank == c.size - 1) sleep_seconds(late_seconds);
  const double begin = now_seconds();
  form == Form::persistent ? (void)MPI_Start(&request) : sum.post(&request);
  const double start_took = now_seconds() - begin;
  double longest_test = 0;
  int done = 0;
  while (done == 0) {
    const double before = now_seconds();
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    longest_test = std::max(longest_test, now_seconds() - before);
  }
  const double whole = now_seconds() - begin;
  if (form == Form::persistent) MPI_Request_free(&request);
  sum.check("after a late rank");
  c.expect(start_took < prompt_seconds, name_of(form), ", count ", count, ": starting took ",
           start_took, " s");
  c.expect(longest_test < prompt_seconds, name_of(form), ", count ", count, ": MPI_Test took ",
           longest_test, " s");
  c.expect(c.rank == c.size - 1 || whole > late_seconds / 2, name_of(form), ", count ", count,
           ": complete before the last rank came");
}

void test_is_prompt(Case& c) {
  for (const Form form : {Form::nonblocking, Form::persistent}) {
    for (const std::size_t count : {1, 10000, 500000}) late_rank(c, form, count);
  }
}

// --- other processes ----------------------------------------------------------------------------

void fork_and_system(Case& c) {
  for (const std::size_t count : {1, 1000, 300000}) {
    Sum sum(c, c.comm, count, count);
    MPI_Request request = MPI_REQUEST_NULL;
    sum.post(&request);
    const pid_t child = fork();
    if (child == 0) {
      volatile char touched[4096];
      std::fill(std::begin(touched), std::end(touched), static_cast<char>(1));
      _exit(touched[17] == 1 ? 42 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    c.expect(WIFEXITED(status) && WEXITSTATUS(status) == 42, "the child of fork() came to grief");
    c.expect(std::system("exit 7") >> 8 == 7, "system() came to grief");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    sum.check("after fork and system");
    sum.refill(1);
    sum.call();
    sum.check("the next call after fork and system");
  }
}

constexpr Entry cases[] = {
    {"many_outstanding_waitall", many_outstanding<finish_with_waitall>},
    {"many_outstanding_waitany", many_outstanding<finish_with_waitany>},
    {"many_outstanding_testsome", many_outstanding<finish_with_testsome>},
    {"many_outstanding_backwards", many_outstanding<finish_backwards>},
    {"many_outstanding_shuffled", many_outstanding<finish_shuffled>},
    {"two_thousand_small_backwards", two_thousand_small_backwards},
    {"persistent_fifty_starts", persistent_fifty_starts},
    {"persistent_started_in_different_orders", persistent_started_in_different_orders},
    {"persistent_startall", persistent_startall},
    {"persistent_started_unequally", persistent_started_unequally},
    {"persistent_count_zero", persistent_count_zero},
    {"type_and_op_freed_after_iallreduce", type_and_op_freed_at_once<Form::nonblocking>},
    {"type_and_op_freed_after_init", type_and_op_freed_at_once<Form::persistent>, When::by_name},
    {"communicator_freed_while_active", communicator_freed_while_active, When::by_name},
    {"test_is_prompt", test_is_prompt},
    {"fork_and_system", fork_and_system},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
