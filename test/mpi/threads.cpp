// MPI_THREAD_MULTIPLE: four threads, each on a communicator of its own, in all three forms at once.
// By name: gpuar's own progress thread.
#include <mutex>
#include <thread>

#include "harness.h"

using namespace mpitest;

namespace {

constexpr int thread_count = 4;

struct Report {
  std::mutex mutex;
  std::string first;
  void add(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (first.empty()) first = why;
  }
};

void check(Report& report, int thread, int round, Form form, const std::vector<std::int64_t>& out,
           std::int64_t expected) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == expected) continue;
    std::ostringstream text;
    text << "thread " << thread << ", round " << round << ", " << name_of(form) << ", count "
         << out.size() << ", element " << i << ": got " << out[i] << ", expected " << expected;
    report.add(text.str());
    return;
  }
}

void work(const Case& c, MPI_Comm comm, int thread, int rounds, Report& report) {
  constexpr std::size_t counts[] = {1, 33, 1000, 9000};
  for (int round = 0; round < rounds; ++round) {
    const std::size_t count = counts[static_cast<std::size_t>(round + thread) % std::size(counts)];
    const auto form = all_forms[static_cast<std::size_t>(round) % all_forms.size()];
    const std::int64_t factor = (thread + 1) * 1000 + round;
    std::vector<std::int64_t> in(count, (c.rank + 1) * factor);
    std::vector<std::int64_t> out(count, -1);
    allreduce(form, in.data(), out.data(), count, MPI_INT64_T, MPI_SUM, comm);
    check(report, thread, round, form, out, factor * c.size * (c.size + 1) / 2);
  }
}

// Several calls under way per thread, completed in turn.
void work_ahead(const Case& c, MPI_Comm comm, int thread, int rounds, Report& report) {
  constexpr std::size_t ahead = 8;
  for (int round = 0; round < rounds; round += ahead) {
    std::vector<std::vector<std::int64_t>> in;
    std::vector<std::vector<std::int64_t>> out(ahead, std::vector<std::int64_t>(500, -1));
    std::array<MPI_Request, ahead> requests{};
    for (std::size_t k = 0; k < ahead; ++k) {
      in.emplace_back(500, (c.rank + 1) * (thread + round + static_cast<int>(k)));
    }
    for (std::size_t k = 0; k < ahead; ++k) {
      MPI_Iallreduce(in[k].data(), out[k].data(), 500, MPI_INT64_T, MPI_SUM, comm, &requests[k]);
    }
    for (std::size_t k = ahead; k > 0; --k) {
      MPI_Wait(&requests[k - 1], MPI_STATUS_IGNORE);
      const std::int64_t factor = thread + round + static_cast<int>(k - 1);
      check(report, thread, round, Form::nonblocking, out[k - 1],
            factor * c.size * (c.size + 1) / 2);
    }
  }
}

template <auto body>
void four_threads(Case& c) {
  const auto rounds = static_cast<int>(option("rounds", 400));
  std::array<MPI_Comm, thread_count> comms{};
  for (MPI_Comm& comm : comms) MPI_Comm_dup(c.comm, &comm);
  Report report;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < thread_count; ++thread) {
    const MPI_Comm comm = comms[static_cast<std::size_t>(thread)];
    threads.emplace_back(
        [&c, comm, thread, rounds, &report] { body(c, comm, thread, rounds, report); });
  }
  for (std::thread& thread : threads) thread.join();
  c.expect(report.first.empty(), report.first);
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
}

// A tool that asks for its own interface with one thread says nothing about the program's.
void beside_a_tool(Case& c) {
  int provided = 0;
  c.expect(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS, "no MPI_T");
  four_threads<work>(c);
  MPI_T_finalize();
}

// With coll_gpuar_progress_thread a call of several rounds goes on while no rank is in MPI: rank 0
// finds it done while the others still compute.
void moves_while_computing(Case& c) {
  std::vector<double> in(std::size_t{1} << 20, c.rank);
  std::vector<double> out(in.size());
  const auto count = static_cast<int>(in.size());
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(in.data(), out.data(), count, MPI_DOUBLE, MPI_SUM, c.comm, &request);
  sleep_seconds(c.rank == 0 ? 1 : 2);
  int done = 0;
  for (int poll = 0; poll < 1000 && !done; ++poll) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  c.expect(done != 0, "the call is not done after a second of computing");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  c.expect(out.back() == c.size * (c.size - 1) / 2.0, "wrong sum ", out.back());
}

constexpr Entry cases[] = {
    {"one_call_at_a_time", four_threads<work>},
    {"eight_calls_ahead", four_threads<work_ahead>},
    {"beside_a_tool", beside_a_tool},
    {"moves_while_computing", moves_while_computing, When::by_name},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases, MPI_THREAD_MULTIPLE);
}
