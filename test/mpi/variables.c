/* Writes gpuar's MPI_T control variables while the program runs, as a tool would, and prints what
 * came of it, from rank 0: `WRITE name error-class`, `VALUE name value`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;

static int control(const char* wanted, int* count, MPI_Datatype* type) {
  int variables;
  MPI_T_cvar_get_num(&variables);
  for (int i = 0; i < variables; ++i) {
    char name[128];
    int name_bytes = sizeof name, verbosity, bind, scope, text_bytes = 0;
    MPI_T_enum values;
    MPI_T_cvar_get_info(i, name, &name_bytes, &verbosity, type, &values, NULL, &text_bytes, &bind,
                        &scope);
    MPI_T_cvar_handle handle;
    if (strcmp(name, wanted) != 0) continue;
    MPI_T_cvar_handle_alloc(i, NULL, &handle, count);
    MPI_T_cvar_handle_free(&handle);
    return i;
  }
  fprintf(stderr, "there is no %s\n", wanted);
  MPI_Abort(MPI_COMM_WORLD, 2);
  return -1;
}

/* Texts, numbers and flags are all given as text. */
static void write_control(const char* name, const char* text) {
  int count, bytes;
  MPI_Datatype type;
  union {
    char text[64];
    int number;
    unsigned long size;
  } value = {{0}};
  MPI_T_cvar_handle handle;
  const int index = control(name, &count, &type);
  MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
  MPI_Type_size(type, &bytes);
  if (type == MPI_CHAR) {
    snprintf(value.text, sizeof value.text, "%s", text);
  } else if (bytes == 8) {
    value.size = strtoul(text, NULL, 10);
  } else {
    value.number = atoi(text);
  }
  const int error = MPI_T_cvar_write(handle, &value);
  if (rank == 0) {
    printf("WRITE %s %s\n", name,
           error == MPI_SUCCESS                ? "done"
           : error == MPI_T_ERR_CVAR_SET_NEVER ? "never"
                                               : "other");
  }
  MPI_T_cvar_handle_free(&handle);
}

static unsigned long long performance(MPI_T_pvar_session session, const char* wanted) {
  int variables;
  MPI_T_pvar_get_num(&variables);
  for (int i = 0; i < variables; ++i) {
    char name[128];
    int name_bytes = sizeof name, verbosity, class, bind, read_only, continuous, atomic;
    int text_bytes = 0, count;
    MPI_Datatype type;
    MPI_T_enum values;
    MPI_T_pvar_get_info(i, name, &name_bytes, &verbosity, &class, &type, &values, NULL, &text_bytes,
                        &bind, &read_only, &continuous, &atomic);
    if (strcmp(name, wanted) != 0) continue;
    MPI_T_pvar_handle handle;
    unsigned long long value = 0;
    MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count);
    MPI_T_pvar_read(session, handle, &value);
    MPI_T_pvar_handle_free(session, &handle);
    return value;
  }
  fprintf(stderr, "there is no %s\n", wanted);
  MPI_Abort(MPI_COMM_WORLD, 2);
  return 0;
}

static void call(int count) {
  double* mine = calloc((size_t)count, sizeof *mine);
  double* sum = calloc((size_t)count, sizeof *sum);
  mine[count - 1] = 1;
  MPI_Allreduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (sum[count - 1] != ranks) MPI_Abort(MPI_COMM_WORLD, 3);
  free(mine);
  free(sum);
}

static void show_pool(MPI_T_pvar_session session, const char* when) {
  const unsigned long long bytes = performance(session, "coll_gpuar_pool_bytes");
  if (rank == 0) printf("VALUE %s %llu\n", when, bytes);
}

int main(int argc, char** argv) {
  enum { long_call = 1 << 19, short_call = 77, later_call = 78, progress = 20 };
  int provided;
  MPI_T_pvar_session session;
  MPI_Init(&argc, &argv);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_T_pvar_session_create(&session);

  write_control("coll_gpuar_algorithm", "ring");
  write_control("coll_gpuar_reproducible", "1");
  write_control("coll_gpuar_segment_size", "4096");
  write_control("coll_gpuar_progress_thread", "1");
  write_control("coll_gpuar_trace", "x");
  write_control("coll_gpuar_spin", "3");
  write_control("coll_gpuar_device_limit", "1024");
  call(short_call);
  write_control("coll_gpuar_verbose", "1");
  call(later_call);
  write_control("coll_gpuar_verbose", "0");
  call(long_call);
  show_pool(session, "before");
  write_control("coll_gpuar_release_pools", "1");
  for (int i = 0; i < progress; ++i) MPI_Barrier(MPI_COMM_WORLD);
  show_pool(session, "released");
  call(long_call);
  show_pool(session, "again");

  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  MPI_Finalize();
  return 0;
}
