// The very first call of a process returns at once, too. Rank 0 posts its allreduce, then receives;
// rank 1 sends synchronously, then posts its own: a first call that waits for anyone deadlocks. One
// case per process.
#include "harness.h"

using namespace mpitest;

namespace {

void first_call(Case& c, Form form, std::size_t count) {
  std::vector<std::int64_t> in(count, c.rank + 1);
  std::vector<std::int64_t> out(count, -1);
  MPI_Request request = MPI_REQUEST_NULL;
  int token = 17;
  if (c.rank == 1) MPI_Ssend(&token, 1, MPI_INT, 0, 5, c.comm);
  start_allreduce(form, in.data(), out.data(), count, MPI_INT64_T, MPI_SUM, c.comm, &request);
  if (c.rank == 0) MPI_Recv(&token, 1, MPI_INT, 1, 5, c.comm, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  const std::int64_t expected = std::int64_t{c.size} * (c.size + 1) / 2;
  for (std::size_t i = 0; i < count; ++i) {
    if (!c.expect(out[i] == expected, "element ", i, ": got ", out[i])) break;
  }
}

template <Form form, std::size_t count>
void first(Case& c) {
  first_call(c, form, count);
}

// The same with a communicator's first call, made while its creation is still under way.
void on_new_communicator(Case& c) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  int token = 17;
  if (c.rank == 1) MPI_Ssend(&token, 1, MPI_INT, 0, 5, c.comm);
  MPI_Comm_idup(c.comm, &comm, &request);
  if (c.rank == 0) MPI_Recv(&token, 1, MPI_INT, 1, 5, c.comm, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int mine = 1;
  int sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  c.expect(sum == c.size, "got ", sum);
  MPI_Comm_free(&comm);
}

constexpr Entry cases[] = {
    {"nonblocking_small", first<Form::nonblocking, 1>},
    {"nonblocking_large", first<Form::nonblocking, 1000000>, When::by_name},
    {"persistent_small", first<Form::persistent, 1>, When::by_name},
    {"persistent_large", first<Form::persistent, 1000000>, When::by_name},
    {"on_new_communicator", on_new_communicator, When::by_name},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
