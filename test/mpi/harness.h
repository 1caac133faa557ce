// What the MPI test programs share: named cases, the verdict of all ranks, the three forms of an
// allreduce, and buffers with guard words.
//
// A program is run as `mpirun -n P ./program [case …]`, or with --list. Without names it runs every
// case but those that only run by name. Rank 0 prints `PASS case` or `FAIL case: why`, and the exit
// status is 1 if a case failed. Verdicts travel by MPI_Send: an allreduce under test judges
// nothing. GPUAR_TEST_SEED sets the seed of all values and delays.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace mpitest {

// One running case, on one rank.
class Case {
 public:
  Case(MPI_Comm world, std::uint64_t seed_value);

  // Notes a failure; only the first one of a rank is reported. Returns ok.
  template <class... Parts>
  bool expect(bool ok, const Parts&... why) {
    if (!ok && first_failure_.empty()) {
      std::ostringstream text;
      (text << ... << why);
      first_failure_ = text.str();
    }
    return ok;
  }

  [[nodiscard]] bool failed() const { return !first_failure_.empty(); }
  [[nodiscard]] const std::string& first_failure() const { return first_failure_; }

  const MPI_Comm comm;
  const std::uint64_t seed;
  int rank = 0;
  int size = 0;

 private:
  std::string first_failure_;
};

enum class When { always, by_name };

struct Entry {
  const char* name;
  void (*body)(Case&);
  When when = When::always;
};

// The whole of a test program: MPI_Init_thread, the cases, MPI_Finalize. Returns the exit status.
int run_cases(int argc, char** argv, std::span<const Entry> cases,
              int thread_level = MPI_THREAD_SINGLE);

// An operand of the program that is no case name (`key=value`), or the default.
long option(const char* key, long otherwise);

enum class Form { blocking, nonblocking, persistent };
inline constexpr std::array<Form, 3> all_forms{Form::blocking, Form::nonblocking, Form::persistent};
const char* name_of(Form form);

enum class Place { apart, in_place };
inline constexpr std::array<Place, 2> both_places{Place::apart, Place::in_place};
const char* name_of(Place place);

// One whole allreduce: posted and waited for; for the persistent form also initialised and freed.
int allreduce(Form form, const void* in, void* out, std::size_t count, MPI_Datatype type, MPI_Op op,
              MPI_Comm comm);

// Posts one and returns its active request; the form must not be blocking. A persistent request
// must be freed after its completion.
int start_allreduce(Form form, const void* in, void* out, std::size_t count, MPI_Datatype type,
                    MPI_Op op, MPI_Comm comm, MPI_Request* request);

// A well-mixed 64-bit value (splitmix64), the same on every rank for the same arguments.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) {
  return mix(mix(mix(a) + b) + c);
}

// A permutation of 0..n-1 that differs from rank to rank.
std::vector<std::size_t> shuffled(const Case& c, std::size_t n, std::uint64_t salt);

// From now on the process is at `what`; it says so and ends if it still is after the option
// `limit`'s seconds (120). Not for several threads.
void watch(const std::string& what, int rank);

double now_seconds();

// Repeats a call in blocks and returns the mean time of a call, in microseconds, of the block at
// `quantile` of all blocks: 0.5 is the median; a low one sees little of what else the machine does.
template <class Call>
double microseconds_per_call(long blocks, long calls, double quantile, Call call) {
  std::vector<double> means;
  for (long block = 0; block < blocks; ++block) {
    const double begin = now_seconds();
    for (long i = 0; i < calls; ++i) call();
    means.push_back((now_seconds() - begin) / static_cast<double>(calls) * 1e6);
  }
  std::sort(means.begin(), means.end());
  return means[static_cast<std::size_t>(quantile * static_cast<double>(means.size() - 1))];
}
void sleep_seconds(double seconds);

// Memory for `bytes`, `shift` bytes off alignment, between guard words.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, std::size_t shift = 0);
  [[nodiscard]] std::byte* data() { return storage_.data() + guard + shift_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // Index of the first damaged guard byte relative to data(), or `intact`.
  [[nodiscard]] long damage() const;
  static constexpr long intact = -1L << 62;

 private:
  static constexpr std::size_t guard = 64;
  std::vector<std::byte> storage_;
  std::size_t bytes_;
  std::size_t shift_;
};

}  // namespace mpitest
