/* late CALLS BYTES RANK MICROSECONDS: blocking allreduces which one rank enters late, after 20 of
 * four bytes each to warm up. Every rank
 * prints what it measured itself, `TRUTH rank waiting moving` in seconds: how long it was in a call
 * before the last rank entered, and the rest. The clock is the one that no time namespace moves. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 5) MPI_Abort(MPI_COMM_WORLD, 2);
  const int calls = atoi(argv[1]), floats = atoi(argv[2]) / 4;
  const int late = atoi(argv[3]), microseconds = atoi(argv[4]);
  float* mine = calloc((size_t)floats, sizeof *mine);
  float* sum = calloc((size_t)floats, sizeof *sum);
  double* entered = calloc((size_t)ranks, sizeof *entered);
  double waiting = 0, moving = 0;
  for (int i = 0; i < 20; ++i) MPI_Allreduce(mine, sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < calls; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == late) usleep((useconds_t)microseconds);
    double begin = now(), end, last = 0;
    MPI_Allreduce(mine, sum, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    end = now();
    MPI_Allgather(&begin, 1, MPI_DOUBLE, entered, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; ++r) last = entered[r] > last ? entered[r] : last;
    if (last > end) last = end;
    waiting += last - begin;
    moving += end - last;
  }
  printf("TRUTH %d %.9f %.9f\n", rank, waiting, moving);
  free(entered);
  free(sum);
  free(mine);
  MPI_Finalize();
  return 0;
}
