// Times that a lane compares between gpuar and stock Open MPI: `MICROSECONDS name value`, from rank
// 0.
#include <cstdio>

#include "harness.h"

using namespace mpitest;

namespace {

void print(const Case& c, const char* name, double microseconds) {
  if (c.rank == 0) std::printf("MICROSECONDS %s %.3f\n", name, microseconds);
}

// Eight bytes there and back between ranks 0 and 1; no allreduce is under way.
void ping_pong(Case& c) {
  double message = 1;
  const auto there_and_back = [&] {
    if (c.rank == 0) {
      MPI_Send(&message, 1, MPI_DOUBLE, 1, 1, c.comm);
      MPI_Recv(&message, 1, MPI_DOUBLE, 1, 1, c.comm, MPI_STATUS_IGNORE);
    } else if (c.rank == 1) {
      MPI_Recv(&message, 1, MPI_DOUBLE, 0, 1, c.comm, MPI_STATUS_IGNORE);
      MPI_Send(&message, 1, MPI_DOUBLE, 0, 1, c.comm);
    }
  };
  print(c, "ping_pong", microseconds_per_call(100, 200, 0.1, there_and_back));
}

// gpuar has been used before, and is idle now.
void ping_pong_after_a_call(Case& c) {
  std::vector<int> in(1000, 1);
  std::vector<int> out(1000);
  MPI_Allreduce(in.data(), out.data(), 1000, MPI_INT, MPI_SUM, c.comm);
  c.expect(out[999] == c.size, "wrong sum");
  ping_pong(c);
}

void eight_bytes(Case& c) {
  double in = 1;
  double out = 0;
  const auto call = [&] { MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, c.comm); };
  print(c, "allreduce", microseconds_per_call(41, 100, 0.5, call));
  c.expect(out == c.size, "wrong sum");
}

// Long enough that the network limits it.
void two_mebibytes(Case& c) {
  const std::size_t count = std::size_t{1} << 19U;
  std::vector<float> in(count, 1);
  std::vector<float> out(count);
  const auto call = [&] {
    MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, c.comm);
  };
  print(c, "allreduce", microseconds_per_call(5, 4, 0.5, call));
  c.expect(out[count - 1] == static_cast<float>(c.size), "wrong sum");
}

constexpr Entry cases[] = {
    {"ping_pong", ping_pong},
    {"ping_pong_after_a_call", ping_pong_after_a_call},
    {"eight_bytes", eight_bytes},
    {"two_mebibytes", two_mebibytes, When::by_name},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
