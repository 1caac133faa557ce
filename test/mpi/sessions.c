/* Allreduce in all three forms within an MPI session: no MPI_Init, and no MPI_COMM_WORLD. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { count = 5000 };

static int out[count];

static int wrong(const char* form, int size) {
  for (int i = 0; i < count; ++i) {
    const int expected = i * size + size * (size - 1) / 2;
    if (out[i] == expected) continue;
    (void)fprintf(stderr, "%s: element %d is %d instead of %d\n", form, i, out[i], expected);
    return 1;
  }
  return 0;
}

static int all_forms(MPI_Comm comm) {
  static int in[count];
  int rank;
  int size;
  int failed = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < count; ++i) in[i] = i + rank;
  MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
  failed += wrong("blocking", size);
  MPI_Request request;
  MPI_Iallreduce(in, out, count, MPI_INT, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  failed += wrong("nonblocking", size);
  MPI_Allreduce_init(in, out, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
  for (int start = 0; start < 2; ++start) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    failed += wrong("persistent", size);
  }
  MPI_Request_free(&request);
  return failed;
}

static int session(const char* tag) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Comm duplicate;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Group_free(&group);
  int failed = all_forms(comm);
  MPI_Comm_dup(comm, &duplicate);
  failed += all_forms(duplicate);
  MPI_Comm_free(&duplicate);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  return failed;
}

int main(void) {
  return session("gpuar.first") ? EXIT_FAILURE : EXIT_SUCCESS;
}
