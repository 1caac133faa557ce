/* More elements than an int counts, by MPI_Allreduce_c in place; then the other two forms by their
 * names of large counts. The operand is the number of elements beyond 2^31. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int check(const unsigned char* values, size_t count, int ranks) {
  for (size_t i = 0; i < count; ++i) {
    const unsigned char expected = (unsigned char)((i >> 7U) * (size_t)ranks);
    if (values[i] == expected) continue;
    (void)fprintf(stderr, "element %zu is %d instead of %d\n", i, values[i], expected);
    return 1;
  }
  return 0;
}

static void fill(unsigned char* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = (unsigned char)(i >> 7U);
}

static int once(size_t count, int ranks, int form) {
  unsigned char* values = malloc(count);
  MPI_Request request = MPI_REQUEST_NULL;
  fill(values, count);
  if (0 == form) {
    MPI_Allreduce_c(MPI_IN_PLACE, values, (MPI_Count)count, MPI_UINT8_T, MPI_SUM, MPI_COMM_WORLD);
  } else if (1 == form) {
    MPI_Iallreduce_c(MPI_IN_PLACE, values, (MPI_Count)count, MPI_UINT8_T, MPI_SUM, MPI_COMM_WORLD,
                     &request);
  } else {
    MPI_Allreduce_init_c(MPI_IN_PLACE, values, (MPI_Count)count, MPI_UINT8_T, MPI_SUM,
                         MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  const int failed = check(values, count, ranks);
  if (MPI_REQUEST_NULL != request) MPI_Request_free(&request);
  free(values);
  return failed;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const size_t beyond = argc > 1 ? strtoul(argv[1], NULL, 10) : 13;
  int failed = once(((size_t)1 << 31U) + beyond, ranks, 0);
  failed += once(1000, ranks, 1);
  failed += once(1000, ranks, 2);
  MPI_Finalize();
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
