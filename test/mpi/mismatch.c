/* mismatch CASE FORM [fatal]: one allreduce that is right; then, on a duplicate of MPI_COMM_WORLD,
 * one in which the last rank does something else than the others:
 *
 *   count, op, type   calls with another one
 *   order             of a blocking and a nonblocking call makes the nonblocking one first
 *   absent            waits in MPI_Barrier instead
 *   asleep            sleeps instead, outside MPI
 *
 * Errors are returned, unless they are to be fatal. Every rank prints `ENDED rank error`; errors
 * are expected, and no hang: a rank that is still there after 20 s is killed by SIGALRM. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "persistent.h"

enum { elements = 100 };

static float in[2 * elements], out[2 * elements], more[2 * elements];

static int wait_for(int rc, MPI_Request* request) {
  return MPI_SUCCESS == rc ? MPI_Wait(request, MPI_STATUS_IGNORE) : rc;
}

static int call(const char* form, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (0 == strcmp(form, "blocking")) return MPI_Allreduce(in, out, count, type, op, comm);
  if (0 == strcmp(form, "nonblocking")) {
    return wait_for(MPI_Iallreduce(in, out, count, type, op, comm, &request), &request);
  }
  int rc = persistent_allreduce_init(in, out, count, type, op, comm, &request);
  if (MPI_SUCCESS == rc) rc = MPI_Start(&request);
  rc = wait_for(rc, &request);
  if (MPI_REQUEST_NULL != request) MPI_Request_free(&request);
  return rc;
}

static int out_of_order(int odd, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  int first = MPI_SUCCESS;
  if (!odd) first = MPI_Allreduce(in, out, elements, MPI_FLOAT, MPI_SUM, comm);
  int rc = MPI_Iallreduce(in, more, elements, MPI_FLOAT, MPI_SUM, comm, &request);
  if (odd) first = MPI_Allreduce(in, out, elements, MPI_FLOAT, MPI_SUM, comm);
  rc = wait_for(rc, &request);
  return MPI_SUCCESS != first ? first : rc;
}

static int wrong(const char* what, const char* form, int odd, MPI_Comm comm) {
  if (0 == strcmp(what, "order")) return out_of_order(odd, comm);
  if (odd && 0 == strcmp(what, "asleep")) return sleep(3), MPI_ERR_OTHER;
  if (odd && 0 == strcmp(what, "absent")) return MPI_ERR_OTHER;
  const int count = odd && 0 == strcmp(what, "count") ? elements + 1 : elements;
  const MPI_Datatype type = odd && 0 == strcmp(what, "type") ? MPI_INT : MPI_FLOAT;
  return call(form, count, type, odd && 0 == strcmp(what, "op") ? MPI_MAX : MPI_SUM, comm);
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Comm comm;
  MPI_Init(&argc, &argv);
  if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 2);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < 2 * elements; ++i) in[i] = 1;
  if (MPI_SUCCESS != call(argv[2], elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) ||
      out[elements - 1] != (float)ranks) {
    printf("WRONG on rank %d\n", rank);
  }
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (argc == 3) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  alarm(20); /* without the check some of these never end */
  const int rc = wrong(argv[1], argv[2], rank == ranks - 1, comm);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("ENDED %d %d\n", rank, rc);
  MPI_Finalize();
  return 0;
}
