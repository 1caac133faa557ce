// survive FORM BYTES FAULT SECONDS [MARK]: allreduces on a duplicate of MPI_COMM_WORLD, one after
// the other, every sum checked, while something happens to the last rank half a second after the
// beginning:
//
//   kill, stop    it is killed; or stopped, and continued after 5 s
//   none          nothing that this program does; rank 0 makes the file MARK at the beginning
//
// Errors are returned. A rank ends at its first error, or all do after SECONDS. Each prints
// `ENDED rank calls wrong error seconds`: the calls that ended well, how many of them had a wrong
// sum, the class of the error that ended it (0: none), and when that was after the fault. Nobody
// calls MPI_Finalize after an error: it would wait for the dead.
#include <mpi.h>
#include <spawn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "harness.h"
#include "persistent.h"

using namespace mpitest;

namespace {

constexpr double fault_after = 0.5;

// By the clock that all hosts of a test share.
double now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Another process does it: the victim may be anywhere by then.
void arrange(const std::string& fault) {
  const std::string pid = std::to_string(getpid());
  std::string script = "sleep " + std::to_string(fault_after) + "; kill -";
  script += fault == "kill" ? "KILL " + pid : "STOP " + pid + "; sleep 5; kill -CONT " + pid;
  std::string shell = "sh";
  std::string option = "-c";
  char* const words[] = {shell.data(), option.data(), script.data(), nullptr};
  pid_t child = 0;
  posix_spawn(&child, "/bin/sh", nullptr, nullptr, words, environ);
}

class Calls {
 public:
  Calls(std::string form, std::size_t elements, MPI_Comm comm)
      : form_(std::move(form)), in_(elements), out_(elements), comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // One call; whether this rank wants to stop travels in the last element. Returns MPI's code.
  int next(bool stop) {
    ++round_;
    for (std::size_t i = 0; i + 1 < in_.size(); ++i) in_[i] = value(i) + rank_;
    in_.back() = stop ? 1 : 0;
    std::memset(out_.data(), 0xff, out_.size() * sizeof out_[0]);
    const int rc = call();
    if (rc == MPI_SUCCESS) check();
    return rc;
  }
  [[nodiscard]] bool stopped() const { return out_.back() > 0; }
  [[nodiscard]] long wrong() const { return wrong_; }
  [[nodiscard]] long right() const { return right_; }

 private:
  [[nodiscard]] int value(std::size_t i) const {
    return static_cast<int>((i * 7 + static_cast<std::size_t>(round_)) % 1000);
  }
  int call() {
    const int count = static_cast<int>(in_.size());
    if (form_ == "blocking")
      return MPI_Allreduce(in_.data(), out_.data(), count, MPI_INT, MPI_SUM, comm_);
    int rc = MPI_SUCCESS;
    if (form_ == "nonblocking") {
      rc = MPI_Iallreduce(in_.data(), out_.data(), count, MPI_INT, MPI_SUM, comm_, &request_);
    } else {
      if (request_ == MPI_REQUEST_NULL)
        rc = persistent_allreduce_init(in_.data(), out_.data(), count, MPI_INT, MPI_SUM, comm_,
                                       &request_);
      if (rc == MPI_SUCCESS) rc = MPI_Start(&request_);
    }
    return rc == MPI_SUCCESS ? MPI_Wait(&request_, MPI_STATUS_IGNORE) : rc;
  }
  void check() {
    bool good = true;
    for (std::size_t i = 0; i + 1 < out_.size(); ++i)
      good = good && out_[i] == size_ * value(i) + size_ * (size_ - 1) / 2;
    good ? ++right_ : ++wrong_;
  }

  std::string form_;
  std::vector<int> in_;
  std::vector<int> out_;
  MPI_Comm comm_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  int rank_ = 0;
  int size_ = 0;
  int round_ = 0;
  long right_ = 0;
  long wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 5) MPI_Abort(MPI_COMM_WORLD, 2);
  const std::string fault = argv[3];
  const double seconds = std::strtod(argv[4], nullptr);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  const double fault_at = now() + fault_after;
  if (rank == size - 1 && fault != "none") arrange(fault);
  if (rank == 0 && argc > 5) std::fclose(std::fopen(argv[5], "w"));
  alarm(static_cast<unsigned>(seconds) + 30);
  Calls calls(argv[1], std::strtoul(argv[2], nullptr, 0) / sizeof(int), comm);
  int rc = MPI_SUCCESS;
  do {
    rc = calls.next(now() - fault_at > seconds);
  } while (rc == MPI_SUCCESS && !calls.stopped());
  int error = MPI_SUCCESS;
  MPI_Error_class(rc, &error);
  std::printf("ENDED %d %ld %ld %d %.3f\n", rank, calls.right(), calls.wrong(), error,
              now() - fault_at);
  std::fflush(stdout);
  if (rc != MPI_SUCCESS) {
    sleep_seconds(0.3);  // others are still to be told
    _exit(0);
  }
  MPI_Finalize();
  return 0;
}
