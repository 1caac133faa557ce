/* fixed_calls N: N blocking allreduces of 8 bytes, for whoever counts what a call costs. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  const long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
  double mine = 1, sum = 0;
  int ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (long i = 0; i < calls; ++i) {
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (calls > 0 && sum != ranks) fprintf(stderr, "wrong sum %g of %d ranks\n", sum, ranks);
  MPI_Finalize();
  return calls > 0 && sum != ranks;
}
