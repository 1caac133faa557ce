// injected: a little of everything that gpuar serves, of which any part may fail. Errors are
// returned. Each rank prints `OUTCOME rank right wrong error`: results that are right, that are
// wrong, and the class of the error after which it made no more calls (0: none). Whatever happens,
// the ranks meet in MPI_Finalize.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "harness.h"
#include "persistent.h"

using namespace mpitest;

namespace {

void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  MPI_Type_get_extent(*type, &lower, &extent);
  const auto stride = static_cast<std::size_t>(extent) / sizeof(int);
  for (std::size_t i = 0; i < static_cast<std::size_t>(*count) * stride; i += stride)
    static_cast<int*>(inout)[i] += static_cast<int*>(in)[i];
}

struct Tally {
  MPI_Comm comm = MPI_COMM_WORLD;
  int rank = 0;
  int size = 0;
  long right = 0;
  long wrong = 0;
  int error = MPI_SUCCESS;

  bool good(int rc) {
    if (rc != MPI_SUCCESS && error == MPI_SUCCESS) MPI_Error_class(rc, &error);
    return error == MPI_SUCCESS;
  }
};

// `stride` between the elements of the type.
void sums(Tally& tally, Form form, std::size_t count, MPI_Datatype type, MPI_Op op,
          std::size_t stride = 1) {
  if (tally.error != MPI_SUCCESS) return;
  std::vector<int> in(count * stride, -1);
  std::vector<int> out(count * stride, -1);
  const auto value = [&](std::size_t i) { return static_cast<int>(i % 1000) + tally.rank; };
  for (std::size_t i = 0; i < count; ++i) in[i * stride] = value(i);
  if (!tally.good(allreduce(form, in.data(), out.data(), count, type, op, tally.comm))) return;
  bool right = true;
  for (std::size_t i = 0; i < count; ++i) {
    const int all = tally.size * static_cast<int>(i % 1000) + tally.size * (tally.size - 1) / 2;
    right = right && out[i * stride] == all;
  }
  right ? ++tally.right : ++tally.wrong;
}

void many_at_once(Tally& tally) {
  if (tally.error != MPI_SUCCESS) return;
  constexpr int calls = 80;
  std::vector<int> in(calls, tally.rank);
  std::vector<int> out(calls, -1);
  std::vector<MPI_Request> requests(calls, MPI_REQUEST_NULL);
  for (std::size_t i = 0; i < calls; ++i) {
    tally.good(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, tally.comm, &requests[i]));
  }
  for (std::size_t i = 0; i < calls; ++i) {
    const int rc = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    if (!tally.good(rc)) continue;
    out[i] == tally.size*(tally.size - 1) / 2 ? ++tally.right : ++tally.wrong;
  }
}

void everything(Tally& tally, MPI_Datatype spaced, MPI_Op op) {
  for (const Form form : all_forms) {
    for (const std::size_t count : {1U, 3000U, 100000U}) sums(tally, form, count, MPI_INT, MPI_SUM);
  }
  many_at_once(tally);
  sums(tally, Form::blocking, 500, MPI_INT, op);
  sums(tally, Form::nonblocking, 500, spaced, op, 2);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Tally tally;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &tally.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &tally.size);
  alarm(60);
  MPI_Datatype spaced = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
  MPI_Type_commit(&spaced);
  MPI_Op_create(add, 1, &op);
  MPI_Comm half = MPI_COMM_NULL;
  everything(tally, spaced, op);
  if (tally.error == MPI_SUCCESS && tally.good(MPI_Comm_dup(MPI_COMM_WORLD, &half))) {
    tally.comm = half;
    sums(tally, Form::blocking, 3000, MPI_INT, MPI_SUM);
    sums(tally, Form::persistent, 3000, MPI_INT, MPI_SUM);
    MPI_Comm_free(&half);
  }
  // An error of the last calls has reached everybody by then.
  MPI_Barrier(MPI_COMM_WORLD);
  sleep_seconds(0.05);
  tally.comm = MPI_COMM_WORLD;
  sums(tally, Form::blocking, 1, MPI_INT, MPI_SUM);
  std::printf("OUTCOME %d %ld %ld %d\n", tally.rank, tally.right, tally.wrong, tally.error);
  std::fflush(stdout);
  MPI_Op_free(&op);
  MPI_Type_free(&spaced);
  MPI_Finalize();
  return 0;
}
