// soak WHAT NUMBER: the same again and again, and what it does to memory and time.
//
//   calls            NUMBER calls, most of them of a few bytes, some of every size up to 1 MiB, in
//   all
//                    three forms
//   communicators    NUMBER times: duplicate or split, one call, free
//   threads          4 threads, each of which makes and frees NUMBER communicators of its own; one
//                    after the other makes, since Open MPI hangs otherwise (docs/reliability.md)
//   spawn            NUMBER times: spawn two processes, merge, one call, disconnect
//
// Rank 0 prints, for each tenth of it, `SOAK part microseconds kib`: the mean time of a round and
// the memory of the process afterwards (its largest over the ranks); at the end `DONE NUMBER
// wrong`.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "harness.h"
#include "persistent.h"

using namespace mpitest;

namespace {

long wrong = 0;

long resident_kib() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long pages = 0;
  long resident = 0;
  const int read = std::fscanf(file, "%ld %ld", &pages, &resident);
  std::fclose(file);
  return read == 2 ? resident * (sysconf(_SC_PAGESIZE) / 1024) : 0;
}

// The largest of all ranks, by messages: an allreduce under test measures nothing.
long largest(long value) {
  long all = value;
  MPI_Reduce(&value, &all, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
  return all;
}

// One call of `count` ints, checked at both ends.
void call(MPI_Comm comm, Form form, std::vector<int>& in, std::vector<int>& out,
          std::size_t count) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  in[0] = rank;
  in[count - 1] = rank;
  allreduce(form, in.data(), out.data(), count, MPI_INT, MPI_SUM, comm);
  const int sum = size * (size - 1) / 2;
  if (out[0] != sum || out[count - 1] != sum) ++wrong;
}

constexpr std::size_t most = std::size_t{1} << 18;  // ints

struct Buffers {
  std::vector<int> in = std::vector<int>(most, 0);
  std::vector<int> out = std::vector<int>(most, 0);
};

void mixed_call(Buffers& buffers, long i) {
  const std::uint64_t dice = mix(static_cast<std::uint64_t>(i));
  const bool is_long = dice % 1000 == 0;
  const std::size_t count = is_long ? 1 + mix(dice) % most : 1 + mix(dice) % 16;
  call(MPI_COMM_WORLD, all_forms[i % 7 == 0 ? 1 + i % 2 : 0], buffers.in, buffers.out, count);
}

// Long calls are few among the mixed ones: without these, pages of shared memory and of pools would
// be touched for the first time until far into the run.
void fill_pools(Buffers& buffers) {
  constexpr std::size_t a_letter = 1000;
  for (std::uint64_t i = 0; i < 200; ++i) {
    call(MPI_COMM_WORLD, all_forms[i % all_forms.size()], buffers.in, buffers.out,
         1 + mix(i) % most);
    call(MPI_COMM_WORLD, all_forms[0], buffers.in, buffers.out, a_letter);
  }
}

void communicator(Buffers& buffers, long i) {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (i % 2 == 0) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (i % 2 == 1) MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
  call(comm, all_forms[static_cast<std::size_t>(i % 3)], buffers.in, buffers.out, 10);
  MPI_Comm_free(&comm);
}

void threads(long number) {
  std::vector<std::thread> all;
  std::vector<MPI_Comm> parents(4, MPI_COMM_NULL);
  for (MPI_Comm& parent : parents) MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  // Which thread makes one next: the same order on every rank.
  std::mutex mutex;
  long turn = 0;
  for (std::size_t t = 0; t < parents.size(); ++t) {
    all.emplace_back([&, t] {
      std::vector<int> in(10);
      std::vector<int> out(10);
      for (long i = 0; i < number; ++i) {
        MPI_Comm comm = MPI_COMM_NULL;
        const long mine = i * static_cast<long>(parents.size()) + static_cast<long>(t);
        for (bool made = false; !made;) {
          const std::lock_guard lock(mutex);
          if (turn != mine) continue;
          MPI_Comm_dup(parents[t], &comm);
          ++turn;
          made = true;
        }
        call(comm, all_forms[static_cast<std::size_t>(i % 3)], in, out, 10);
        MPI_Comm_free(&comm);
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  for (MPI_Comm& parent : parents) MPI_Comm_free(&parent);
}

void merge(MPI_Comm across, bool high, Buffers& buffers) {
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Intercomm_merge(across, high ? 1 : 0, &all);
  for (const Form form : all_forms) call(all, form, buffers.in, buffers.out, 100);
  MPI_Comm_free(&all);
  MPI_Comm_disconnect(&across);
}

void spawn(char* program, Buffers& buffers) {
  MPI_Comm across = MPI_COMM_NULL;
  std::string what = "child";
  std::string number = "1";
  char* words[] = {what.data(), number.data(), nullptr};
  MPI_Comm_spawn(program, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &across, MPI_ERRCODES_IGNORE);
  merge(across, false, buffers);
}

// In ten parts, each of which is timed.
void in_parts(long number, const std::function<void(long)>& round) {
  constexpr long parts = 10;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (long part = 0; part < parts; ++part) {
    const double begin = now_seconds();
    const long first = number * part / parts;
    const long end = number * (part + 1) / parts;
    for (long i = first; i < end; ++i) round(i);
    const double us =
        (now_seconds() - begin) / static_cast<double>(std::max(end - first, 1L)) * 1e6;
    const long kib = largest(resident_kib());
    if (rank == 0) std::printf("SOAK %ld %.3f %ld\n", part, us, kib);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  int provided = 0;
  MPI_Init_thread(&argc, &argv, what == "threads" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                  &provided);
  if (what.empty()) MPI_Abort(MPI_COMM_WORLD, 2);
  const long number = std::strtol(argv[2], nullptr, 10);
  Buffers buffers;
  MPI_Comm parent = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    merge(parent, true, buffers);
  } else if (what == "calls") {
    fill_pools(buffers);
    in_parts(number, [&](long i) { mixed_call(buffers, i); });
  } else if (what == "communicators") {
    in_parts(number, [&](long i) { communicator(buffers, i); });
  } else if (what == "threads") {
    threads(number);
  } else if (what == "spawn") {
    in_parts(number, [&](long) { spawn(argv[0], buffers); });
  }
  const long bad = largest(wrong);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && parent == MPI_COMM_NULL) std::printf("DONE %ld %ld\n", number, bad);
  MPI_Finalize();
  return 0;
}
