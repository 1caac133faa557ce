// race_racer: times allreduce on request. Every rank connects to the socket that it is given and
// sleeps in it, so that the jobs of many MPIs can wait beside each other and cost nothing; a
// request comes to all ranks at once, and each answers with a line of JSON. Needs nothing of the
// MPI but mpi.h and the library.
//
//   request   FORM TYPE OP BYTES SECONDS WARMUP

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/data.h"
#include "bench/measure.h"
#include "bench/served.h"

namespace {

// Buffers above this are given back after each request: many jobs wait beside each other.
constexpr std::size_t kept_bytes = 16 << 20;

// A sample may take so many times the seconds that are asked for: on busy cores.
constexpr double patience = 10;

class Line {
 public:
  explicit Line(const char* path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    // The call takes every kind of address by this type.
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error(fmt::format("cannot connect to {}", path));
    }
  }
  ~Line() { ::close(socket_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  // False at the end of all requests.
  bool read(std::string& line) {
    line.clear();
    for (char next = 0; ::read(socket_, &next, 1) == 1;) {
      if (next == '\n') return true;
      line += next;
    }
    return false;
  }

  void write(const nlohmann::json& answer) {
    const std::string text = answer.dump() + '\n';
    if (::write(socket_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      throw std::runtime_error("nobody listens any more");
    }
  }

 private:
  int socket_;
};

struct Request {
  std::string form, type, op;
  std::size_t bytes = 0;
  bench::Effort effort;
};

Request parse(const std::string& line) {
  std::istringstream words(line);
  Request request;
  words >> request.form >> request.type >> request.op >> request.bytes >>
      request.effort.min_seconds >> request.effort.warmup;
  request.effort.most_seconds = patience * request.effort.min_seconds;
  if (words.fail()) throw std::runtime_error(fmt::format("'{}' is no request", line));
  return request;
}

// How often this process lost its core to another.
long preempted() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

class Racer {
 public:
  Racer() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  [[nodiscard]] nlohmann::json hello() const {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> mpi = {};
    int length = 0;
    MPI_Get_library_version(mpi.data(), &length);
    return {{"rank", rank_}, {"ranks", ranks_}, {"mpi", mpi.data()}};
  }

  nlohmann::json serve(const Request& request) {
    fill(request);
    const long before = preempted();
    const bench::Sample sample =
        bench::measure(bench::form_named(request.form), bench::Path::direct, request.bytes,
                       request.effort, *data_, served_, MPI_COMM_WORLD);
    const long lost = preempted() - before;
    if (request.bytes > kept_bytes) data_.reset();
    return {{"min_us", sample.min_us}, {"median_us", sample.median_us},   {"p95_us", sample.p95_us},
            {"calls", sample.calls},   {"gpuar", sample.served_by_gpuar}, {"preempted", lost}};
  }

 private:
  void fill(const Request& request) {
    if (data_ && request.type == type_ && request.op == op_ && request.bytes <= bytes_) return;
    data_.reset();
    data_ = bench::make_data(request.type, request.op, bench::MemoryKind::host, request.bytes,
                             rank_, ranks_);
    type_ = request.type;
    op_ = request.op;
    bytes_ = request.bytes;
  }

  int rank_ = 0, ranks_ = 1;
  bench::ServedCounter served_;
  std::unique_ptr<bench::Data> data_;
  std::string type_, op_;
  std::size_t bytes_ = 0;
};

// Pins this process to one core, the rank's, before MPI starts its threads.
void pin(int rank) {
  cpu_set_t allowed, own;
  CPU_ZERO(&allowed);
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  int left = rank % CPU_COUNT(&allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed) && left-- == 0) CPU_SET(core, &own);
  }
  sched_setaffinity(0, sizeof(own), &own);
}

// The rank as the launcher says it, since MPI is not up yet; -1 if it does not.
int launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  }
  return -1;
}

void race(const char* socket) {
  Line line(socket);
  Racer racer;
  line.write(racer.hello());
  for (std::string text; line.read(text);) {
    nlohmann::json answer;
    try {
      answer = racer.serve(parse(text));
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    line.write(answer);
  }
}

}  // namespace

// Usage errors end it before MPI is up, all others by MPI_Abort.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  const bool pinned = argc == 3 && std::string(argv[2]) == "pinned";
  if (argc < 2 || (argc == 3 && !pinned) || argc > 3) {
    fmt::print(stderr, "usage: race_racer SOCKET [pinned]\n");
    return EXIT_FAILURE;
  }
  if (pinned && launched_rank() >= 0) pin(launched_rank());
  MPI_Init(&argc, &argv);
  try {
    race(argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "race_racer: {}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}
