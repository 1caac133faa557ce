/* shrink FAULT BYTES: allreduces on a duplicate of MPI_COMM_WORLD go wrong, and the rest goes on.
 *
 *   killed     the last rank kills itself instead of its third call
 *   revoked    rank 0 revokes the communicator instead of its third call
 *
 * The others must get an error of the class that MPI has for it. Then all that are left revoke the
 * communicator, shrink it, and call in all forms on what is left. Each prints `SHRUNK rank class
 * ranks right`: the class of the error, the ranks that are left, and how many of their calls had
 * the right sum. */
#include <mpi.h>
/* After it: it needs what that one declares. */
#include <mpi-ext.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { before = 2, forms = 3 };

static int* in;
static int* out;
static int count;

/* One call, by form; returns MPI's code. */
static int call(int form, MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (0 == form) return MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
  int rc = 1 == form ? MPI_Iallreduce(in, out, count, MPI_INT, MPI_SUM, comm, &request)
                     : MPI_Allreduce_init(in, out, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                          &request);
  if (MPI_SUCCESS == rc && 2 == form) rc = MPI_Start(&request);
  if (MPI_SUCCESS == rc) rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (MPI_REQUEST_NULL != request) MPI_Request_free(&request);
  return rc;
}

static int is_right(int ranks) {
  for (int i = 0; i < count; ++i)
    if (out[i] != ranks * (i % 100)) return 0;
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int killed = 0 == strcmp(argv[1], "killed");
  count = atoi(argv[2]) / (int)sizeof(int);
  in = malloc((size_t)count * sizeof *in);
  out = malloc((size_t)count * sizeof *out);
  for (int i = 0; i < count; ++i) in[i] = i % 100;
  alarm(50);

  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < before; ++i) {
    if (MPI_SUCCESS != call(0, comm) || !is_right(size)) return 3;
  }

  int error = MPI_SUCCESS;
  if (killed && rank == size - 1) {
    raise(SIGKILL);
  } else if (!killed && 0 == rank) {
    MPIX_Comm_revoke(comm);
  } else {
    int rc = MPI_SUCCESS;
    for (int i = 0; MPI_SUCCESS == rc; ++i) rc = call(i % forms, comm);
    MPI_Error_class(rc, &error);
    MPIX_Comm_revoke(comm);
  }

  MPI_Comm rest = MPI_COMM_NULL;
  MPIX_Comm_shrink(comm, &rest);
  MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN);
  int left = 0;
  MPI_Comm_size(rest, &left);
  int right = 0;
  for (int i = 0; i < 10 * forms; ++i) {
    memset(out, 0xff, (size_t)count * sizeof *out);
    right += MPI_SUCCESS == call(i % forms, rest) && is_right(left);
  }
  printf("SHRUNK %d %d %d %d\n", rank, error, left, right);
  fflush(stdout);
  MPI_Comm_free(&rest);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  free(in);
  free(out);
  return 0;
}
