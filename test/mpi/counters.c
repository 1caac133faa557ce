/* Reads gpuar's MPI_T performance variables around a known number of calls, as a tool would, and
 * prints them: `COUNTER name before after`, from rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { most = 64, calls = 7 };

static int handles = 0;
static MPI_T_pvar_handle handle[most];
static char name[most][128];

static void find(MPI_T_pvar_session session) {
  int variables;
  MPI_T_pvar_get_num(&variables);
  for (int i = 0; i < variables && handles < most; ++i) {
    int name_bytes = sizeof name[0], verbosity, class, bind, read_only, continuous, atomic;
    int description_bytes = 0, count;
    MPI_Datatype type;
    MPI_T_enum values;
    MPI_T_pvar_get_info(i, name[handles], &name_bytes, &verbosity, &class, &type, &values, NULL,
                        &description_bytes, &bind, &read_only, &continuous, &atomic);
    int bytes = 0;
    if (strncmp(name[handles], "coll_gpuar_", 11) != 0) continue;
    if (MPI_Type_size(type, &bytes), bytes != 8) continue;
    MPI_T_pvar_handle_alloc(session, i, NULL, &handle[handles], &count);
    if (!continuous) MPI_T_pvar_start(session, handle[handles]);
    ++handles;
  }
}

static void read_all(MPI_T_pvar_session session, unsigned long long value[most]) {
  for (int i = 0; i < handles; ++i) MPI_T_pvar_read(session, handle[i], &value[i]);
}

int main(int argc, char** argv) {
  int provided, rank;
  unsigned long long before[most] = {0}, after[most] = {0};
  MPI_T_pvar_session session;
  MPI_Init(&argc, &argv);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_T_pvar_session_create(&session);
  find(session);
  read_all(session, before);
  for (int i = 0; i < calls; ++i) {
    double mine[100] = {0}, sum[100];
    MPI_Allreduce(mine, sum, 100, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  read_all(session, after);
  for (int i = 0; i < handles && rank == 0; ++i) {
    printf("COUNTER %s %llu %llu\n", name[i], before[i], after[i]);
  }
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  MPI_Finalize();
  return 0;
}
