#include "harness.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <thread>

#include "persistent.h"

namespace mpitest {
namespace {

constexpr int verdict_tag = 31000;
constexpr std::size_t verdict_bytes = 512;
constexpr std::byte guard_byte{0xA5};

std::array<char, 128> alarm_text{};
std::vector<std::string> operands;

// A case that hangs must say which one it was; only write() is allowed here.
void on_alarm(int /*signal*/) {
  const ssize_t written = write(STDERR_FILENO, alarm_text.data(), std::strlen(alarm_text.data()));
  _exit(written < 0 ? 3 : 2);
}

// Rank 0 learns what every rank found, and prints one line. Returns true if all passed (on rank 0).
bool report(const Entry& entry, const Case& c, double seconds) {
  std::array<char, verdict_bytes> mine{};
  std::snprintf(mine.data(), mine.size(), "%s", c.first_failure().c_str());
  if (c.rank != 0) {
    MPI_Send(mine.data(), verdict_bytes, MPI_CHAR, 0, verdict_tag, MPI_COMM_WORLD);
    return true;
  }
  std::string why;
  int failures = 0;
  for (int rank = 0; rank < c.size; ++rank) {
    std::array<char, verdict_bytes> verdict = mine;
    if (rank != 0) {
      MPI_Recv(verdict.data(), verdict_bytes, MPI_CHAR, rank, verdict_tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    }
    if (verdict[0] == '\0') continue;
    if (failures++ == 0) why = "rank " + std::to_string(rank) + ": " + verdict.data();
  }
  if (failures == 0) {
    std::printf("PASS %s (%.1f s)\n", entry.name, seconds);
  } else {
    std::printf("FAIL %s: %s (%d of %d ranks failed, seed %llu)\n", entry.name, why.c_str(),
                failures, c.size, static_cast<unsigned long long>(c.seed));
  }
  std::fflush(stdout);
  return failures == 0;
}

bool is_case(std::string_view operand) {
  return operand.find('=') == std::string_view::npos;
}

bool chosen(const Entry& entry) {
  const bool any_named = std::any_of(operands.begin(), operands.end(), is_case);
  if (!any_named) return entry.when == When::always;
  return std::find(operands.begin(), operands.end(), entry.name) != operands.end();
}

// The first operand that names no case, or an empty string.
std::string unknown_operand(std::span<const Entry> cases) {
  for (const std::string& operand : operands) {
    const bool known =
        std::any_of(cases.begin(), cases.end(), [&](const Entry& e) { return operand == e.name; });
    if (is_case(operand) && !known) return operand;
  }
  return {};
}

}  // namespace

Case::Case(MPI_Comm world, std::uint64_t seed_value) : comm(world), seed(seed_value) {
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
}

int run_cases(int argc, char** argv, std::span<const Entry> cases, int thread_level) {
  operands.assign(argv + 1, argv + argc);
  if (!operands.empty() && operands.front() == "--list") {
    for (const Entry& entry : cases) {
      std::printf("%s%s\n", entry.name, entry.when == When::by_name ? " (by name)" : "");
    }
    return 0;
  }
  if (const std::string unknown = unknown_operand(cases); !unknown.empty()) {
    std::fprintf(stderr, "%s: no case '%s'; --list shows them\n", argv[0], unknown.c_str());
    return 2;
  }
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, thread_level, &provided);
  std::signal(SIGALRM, on_alarm);
  const char* seed_text = std::getenv("GPUAR_TEST_SEED");
  const std::uint64_t seed = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 0) : 1;
  int failed_cases = 0;
  for (const Entry& entry : cases) {
    if (!chosen(entry)) continue;
    Case c(MPI_COMM_WORLD, seed);
    watch(entry.name, c.rank);
    const double begin = now_seconds();
    if (c.expect(provided >= thread_level, "MPI offers thread level ", provided, " only")) {
      entry.body(c);
    }
    if (!report(entry, c, now_seconds() - begin)) ++failed_cases;
  }
  watch("MPI_Finalize", 0);
  MPI_Finalize();
  return failed_cases == 0 ? 0 : 1;
}

long option(const char* key, long otherwise) {
  const std::string prefix = std::string(key) + "=";
  for (const std::string& operand : operands) {
    if (operand.starts_with(prefix))
      return std::strtol(operand.c_str() + prefix.size(), nullptr, 0);
  }
  return otherwise;
}

void watch(const std::string& what, int rank) {
  static const auto seconds = static_cast<unsigned>(option("limit", 120));
  std::snprintf(alarm_text.data(), alarm_text.size(), "FAIL %s: rank %d still there after %u s\n",
                what.c_str(), rank, seconds);
  alarm(seconds);
}

const char* name_of(Form form) {
  switch (form) {
    case Form::blocking:
      return "blocking";
    case Form::nonblocking:
      return "nonblocking";
    case Form::persistent:
      return "persistent";
  }
  return "?";
}

const char* name_of(Place place) {
  return place == Place::apart ? "apart" : "in place";
}

int start_allreduce(Form form, const void* in, void* out, std::size_t count, MPI_Datatype type,
                    MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  const int n = static_cast<int>(count);
  if (form == Form::nonblocking) return MPI_Iallreduce(in, out, n, type, op, comm, request);
  const int rc = persistent_allreduce_init(in, out, n, type, op, comm, request);
  return rc == MPI_SUCCESS ? MPI_Start(request) : rc;
}

int allreduce(Form form, const void* in, void* out, std::size_t count, MPI_Datatype type, MPI_Op op,
              MPI_Comm comm) {
  if (form == Form::blocking) {
    return MPI_Allreduce(in, out, static_cast<int>(count), type, op, comm);
  }
  MPI_Request request = MPI_REQUEST_NULL;
  int rc = start_allreduce(form, in, out, count, type, op, comm, &request);
  if (rc == MPI_SUCCESS) rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  return rc;
}

std::vector<std::size_t> shuffled(const Case& c, std::size_t n, std::uint64_t salt) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = n; i > 1; --i) {
    std::swap(order[i - 1], order[mix(c.seed, static_cast<std::uint64_t>(c.rank), salt + i) % i]);
  }
  return order;
}

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

Guarded::Guarded(std::size_t bytes, std::size_t shift)
    : storage_(guard + shift + bytes + guard, guard_byte), bytes_(bytes), shift_(shift) {}

long Guarded::damage() const {
  const std::size_t first = guard + shift_;
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const bool inside = i >= first && i < first + bytes_;
    if (inside) {
      i = first + bytes_ - 1;
      continue;
    }
    if (storage_[i] != guard_byte) return static_cast<long>(i) - static_cast<long>(first);
  }
  return intact;
}

}  // namespace mpitest
