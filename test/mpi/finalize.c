/* MPI_Finalize right after a call, and nothing else: a lane runs it many times. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double mine = rank + 1, sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  if (sum != size * (size + 1) / 2.0) {
    printf("FAIL finalize: rank %d got %g\n", rank, sum);
    return 1;
  }
  return 0;
}
