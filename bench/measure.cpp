#include "bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "bench/persistent.h"

namespace bench {
namespace {

constexpr std::uint64_t most_batches = 20;
constexpr std::array all_forms = {Form::blocking, Form::nonblocking, Form::persistent};

// The detour of what MPI cannot take as it is. Its memory is pinned and kept between calls, which
// is the best that staging can be.
class Detour {
 public:
  Detour(Data& data, std::size_t bytes)
      : data_(data), in_(MemoryKind::pinned, bytes), out_(MemoryKind::pinned, bytes) {}

  [[nodiscard]] const Buffer& in() const { return in_; }
  [[nodiscard]] Buffer& out() { return out_; }
  void down() { data_.in().read(0, in_.data(), in_.bytes()); }
  void up() { data_.out().write(0, out_.data(), out_.bytes()); }

 private:
  Data& data_;
  Buffer in_, out_;
};

// One allreduce of the chosen form, complete on return.
class Caller {
 public:
  Caller(Form form, Path path, std::size_t count, Data& data, MPI_Comm comm)
      : form_(form),
        count_(static_cast<int>(count)),
        type_(data.type()),
        op_(data.op()),
        comm_(comm) {
    if (path == Path::through_host) detour_.emplace(data, count * data.element_bytes());
    in_ = (detour_ ? detour_->in() : data.in()).data();
    out_ = (detour_ ? detour_->out() : data.out()).data();
    if (form_ == Form::persistent) {
      check(allreduce_init(in_, out_, count_, type_, op_, comm_, &request_));
    }
  }
  ~Caller() {
    if (request_ != MPI_REQUEST_NULL) MPI_Request_free(&request_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void operator()() {
    if (detour_) detour_->down();
    call();
    if (detour_) detour_->up();
  }

 private:
  void call() {
    switch (form_) {
      case Form::blocking:
        check(MPI_Allreduce(in_, out_, count_, type_, op_, comm_));
        return;
      case Form::nonblocking:
        check(MPI_Iallreduce(in_, out_, count_, type_, op_, comm_, &request_));
        break;
      case Form::persistent:
        check(MPI_Start(&request_));
        break;
    }
    check(MPI_Wait(&request_, MPI_STATUS_IGNORE));
  }

  static void check(int code) {
    if (code != MPI_SUCCESS) throw std::runtime_error(fmt::format("MPI error {}", code));
  }

  Form form_;
  int count_;
  MPI_Datatype type_;
  MPI_Op op_;
  MPI_Comm comm_;
  std::optional<Detour> detour_;
  const void* in_ = nullptr;
  void* out_ = nullptr;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// Makes one call and checks every element on every rank. Says which rank saw what.
void verify(Caller& call, std::size_t count, Data& data, MPI_Comm comm) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  data.spoil(count);
  call();
  const auto mismatch = data.first_mismatch(count);
  // Verdicts do not travel by the call under test.
  const int bad = mismatch ? 1 : 0;
  int all_bad = 0;
  MPI_Reduce(&bad, &all_bad, 1, MPI_INT, MPI_SUM, 0, comm);
  MPI_Bcast(&all_bad, 1, MPI_INT, 0, comm);
  if (all_bad == 0) return;
  throw std::runtime_error(
      mismatch ? fmt::format("rank {}: wrong result in element {} of {}: expected {}, found {}",
                             rank, mismatch->element, count, mismatch->expected, mismatch->found)
               : fmt::format("rank {}: result right here, wrong on {} of {} ranks", rank, all_bad,
                             ranks));
}

// Seconds per call over a batch, on the slowest rank; valid on rank 0.
double time_batch(Caller& call, std::uint64_t calls, MPI_Comm comm) {
  MPI_Barrier(comm);
  const double start = MPI_Wtime();
  for (std::uint64_t i = 0; i < calls; ++i) call();
  const double mine = (MPI_Wtime() - start) / static_cast<double>(calls);
  double slowest = mine;
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
  return slowest;
}

struct Batches {
  std::uint64_t number, calls_each;
};

// Rank 0 decides from first timings how many calls fill the time; all follow. The least of several:
// a disturbed one would leave too few calls to tell anything.
Batches plan_batches(Caller& call, const Effort& effort, MPI_Comm comm) {
  std::uint64_t calls = effort.iterations;
  if (calls == 0) {
    double seconds = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) seconds = std::min(seconds, time_batch(call, 1, comm));
    seconds = std::max(seconds, 1e-8);
    calls = static_cast<std::uint64_t>(std::ceil(effort.min_seconds / seconds));
    calls = std::clamp<std::uint64_t>(calls, 3, 10'000'000);
    MPI_Bcast(&calls, 1, MPI_UINT64_T, 0, comm);
  }
  const std::uint64_t number = std::min(calls, most_batches);
  return {number, (calls + number - 1) / number};
}

// Seconds per call of each batch, on all ranks: as many batches as there is time for.
std::vector<double> time_batches(Caller& call, const Batches& batches, double most_seconds,
                                 MPI_Comm comm) {
  std::vector<double> seconds;
  const double start = MPI_Wtime();
  double spent = 0;  // as rank 0 sees it
  while (seconds.size() < batches.number && spent < most_seconds) {
    std::array<double, 2> of_batch = {time_batch(call, batches.calls_each, comm),
                                      MPI_Wtime() - start};
    MPI_Bcast(of_batch.data(), 2, MPI_DOUBLE, 0, comm);
    seconds.push_back(of_batch[0]);
    spent = of_batch[1];
  }
  return seconds;
}

// Nanoseconds that a message of 8 bytes takes between the first two ranks, in the fastest of some
// rallies; on rank 0.
double message_ns(MPI_Comm comm) {
  constexpr int rallies = 20, turns = 20, tag = 1;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  if (ranks < 2 || rank > 1) return 0;
  double least = std::numeric_limits<double>::infinity();
  std::uint64_t ball = 0;
  for (int rally = 0; rally < rallies; ++rally) {
    const double start = MPI_Wtime();
    for (int turn = 0; turn < 2 * turns; ++turn) {
      if (turn % 2 == rank) {
        MPI_Send(&ball, 1, MPI_UINT64_T, 1 - rank, tag, comm);
      } else {
        MPI_Recv(&ball, 1, MPI_UINT64_T, 1 - rank, tag, comm, MPI_STATUS_IGNORE);
      }
    }
    least = std::min(least, (MPI_Wtime() - start) / (2 * turns));
  }
  return least * 1e9;
}

double quantile(const std::vector<double>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(position))];
}

bool on_all_ranks(bool mine, MPI_Comm comm) {
  const int value = mine ? 1 : 0;
  int all = 0;
  MPI_Reduce(&value, &all, 1, MPI_INT, MPI_MIN, 0, comm);
  MPI_Bcast(&all, 1, MPI_INT, 0, comm);
  return all == 1;
}

}  // namespace

const char* name_of(Form form) {
  switch (form) {
    case Form::blocking:
      return "blocking";
    case Form::nonblocking:
      return "nonblocking";
    case Form::persistent:
      return "persistent";
  }
  return "unknown";
}

const char* name_of(Path path) {
  return path == Path::direct ? "direct" : "through host";
}

std::vector<std::string> form_names() {
  std::vector<std::string> names;
  names.reserve(std::size(all_forms));
  for (const Form form : all_forms) names.emplace_back(name_of(form));
  return names;
}

Form form_named(const std::string& name) {
  return *std::find_if(all_forms.begin(), all_forms.end(),
                       [&](Form form) { return name == name_of(form); });
}

Sample measure(Form form, Path path, std::size_t bytes, const Effort& effort, Data& data,
               const ServedCounter& served, MPI_Comm comm) {
  const std::size_t count = bytes / data.element_bytes();
  if (count > INT_MAX) {
    throw std::runtime_error(fmt::format("{} elements are more than an int counts", count));
  }
  Caller call(form, path, count, data, comm);

  verify(call, count, data, comm);
  for (std::uint64_t i = 0; i < effort.warmup; ++i) call();
  const Batches batches = plan_batches(call, effort, comm);

  const double before_ns = message_ns(comm);
  const std::uint64_t served_before = served.calls();
  std::vector<double> seconds = time_batches(call, batches, effort.most_seconds, comm);
  const std::uint64_t timed_calls = seconds.size() * batches.calls_each;
  const bool all_served = served.calls() - served_before >= timed_calls;
  const double after_ns = message_ns(comm);
  verify(call, count, data, comm);

  std::sort(seconds.begin(), seconds.end());
  return {form,
          bytes,
          timed_calls,
          seconds.front() * 1e6,
          quantile(seconds, 0.5) * 1e6,
          quantile(seconds, 0.95) * 1e6,
          on_all_ranks(all_served, comm),
          before_ns,
          after_ns};
}

double algorithm_bandwidth(const Sample& sample) {
  return static_cast<double>(sample.bytes) / sample.median_us * 1e-3;
}

double bus_bandwidth(const Sample& sample, int ranks) {
  return algorithm_bandwidth(sample) * 2.0 * (ranks - 1) / ranks;
}

}  // namespace bench
