// After warm-up a call allocates nothing, in none of the three forms, on any rank. UCX's own pools
// grow when more messages are under way than ever before; that is counted apart and must be rare.
#include <algorithm>

#include "count_allocations.h"
#include "harness.h"
#include "persistent.h"

using namespace mpitest;

namespace {

constexpr int warm_up_calls = 300;
constexpr int counted_calls = 300;
constexpr std::size_t counts[] = {1, 500, 4000, 100000};

// Each rank in turn runs ahead of the others by several calls: all have kept messages that came too
// early.
void run_ahead(Case& c, const std::vector<double>& in) {
  constexpr std::size_t calls = 8;
  const int n = static_cast<int>(in.size());
  std::vector<std::vector<double>> out(calls, std::vector<double>(in.size()));
  std::array<MPI_Request, calls> requests{};
  for (int ahead = 0; ahead < c.size; ++ahead) {
    if (c.rank != ahead) sleep_seconds(0.001);
    for (std::size_t i = 0; i < calls; ++i) {
      MPI_Iallreduce(in.data(), out[i].data(), n, MPI_DOUBLE, MPI_SUM, c.comm, &requests[i]);
      if (c.rank != ahead) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    }
    MPI_Waitall(calls, requests.data(), MPI_STATUSES_IGNORE);
  }
}

// The calls of one form at one size; a call is whatever `call` does.
template <class Call>
void count_per_call(Case& c, Form form, std::size_t count, Call call) {
  run_ahead(c, std::vector<double>(count, 1.0));
  for (int i = 0; i < warm_up_calls; ++i) call();
  start_counting_allocations();
  for (int i = 0; i < counted_calls; ++i) call();
  const unsigned long allocations = stop_counting_allocations();
  if (allocations != 0 && !c.failed()) print_first_allocation();
  c.expect(allocations == 0, name_of(form), ", count ", count, ": ", allocations,
           " allocations in ", counted_calls, " calls");
  c.expect(allocations_of_others() <= counted_calls / 10, name_of(form), ", count ", count,
           ": UCX and others made ", allocations_of_others(), " allocations in ", counted_calls,
           " calls");
}

void blocking(Case& c) {
  for (const std::size_t count : counts) {
    std::vector<double> in(count, 1.0);
    std::vector<double> out(count);
    count_per_call(c, Form::blocking, count, [&] {
      MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM, c.comm);
    });
    c.expect(out[count - 1] == c.size, "wrong sum");
  }
}

void nonblocking(Case& c) {
  for (const std::size_t count : counts) {
    std::vector<double> in(count, 1.0);
    std::vector<double> out(count);
    count_per_call(c, Form::nonblocking, count, [&] {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(in.data(), out.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM, c.comm,
                     &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    });
    c.expect(out[count - 1] == c.size, "wrong sum");
  }
}

void persistent(Case& c) {
  for (const std::size_t count : counts) {
    std::vector<double> in(count, 1.0);
    std::vector<double> out(count);
    MPI_Request request = MPI_REQUEST_NULL;
    persistent_allreduce_init(in.data(), out.data(), static_cast<int>(count), MPI_DOUBLE, MPI_SUM,
                              c.comm, &request);
    count_per_call(c, Form::persistent, count, [&] {
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    });
    MPI_Request_free(&request);
    c.expect(out[count - 1] == c.size, "wrong sum");
  }
}

// The counter itself must count.
void counter_counts(Case& c) {
  start_counting_allocations();
  for (int i = 0; i < 5; ++i) {
    auto* volatile memory = new char[100];
    delete[] memory;
  }
  const unsigned long allocations = stop_counting_allocations();
  c.expect(allocations == 5, "counted ", allocations, " of 5 allocations");
}

constexpr Entry cases[] = {
    {"counter_counts", counter_counts},
    {"blocking", blocking},
    {"nonblocking", nonblocking},
    {"persistent", persistent},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
