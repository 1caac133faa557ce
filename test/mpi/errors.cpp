// Wrong calls under MPI_ERRORS_RETURN: an error class comes back, on every rank, and the job goes
// on.
#include "harness.h"
#include "persistent.h"

using namespace mpitest;

namespace {

int error_class(int code) {
  int value = MPI_SUCCESS;
  MPI_Error_class(code, &value);
  return value;
}

// One wrong call in every form; each must be refused with one of two classes.
void refused(Case& c, const char* what, const void* in, void* out, int count, MPI_Datatype type,
             MPI_Op op, int wanted, int also_right) {
  for (const Form form : all_forms) {
    MPI_Request request = MPI_REQUEST_NULL;
    int rc = MPI_SUCCESS;
    if (form == Form::blocking) rc = MPI_Allreduce(in, out, count, type, op, c.comm);
    if (form == Form::nonblocking) rc = MPI_Iallreduce(in, out, count, type, op, c.comm, &request);
    if (form == Form::persistent) {
      rc = persistent_allreduce_init(in, out, count, type, op, c.comm, &request);
    }
    const int got = error_class(rc);
    c.expect(got == wanted || got == also_right, what, ", ", name_of(form), ": error class ", got,
             ", expected ", wanted);
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(rc, text.data(), &length);
    c.expect(length > 0, what, ": no error string");
  }
}

void still_right(Case& c) {
  for (const Form form : all_forms) {
    std::vector<int> in(1000, c.rank);
    std::vector<int> out(1000, -1);
    const int rc = allreduce(form, in.data(), out.data(), 1000, MPI_INT, MPI_SUM, c.comm);
    c.expect(rc == MPI_SUCCESS && out[999] == c.size * (c.size - 1) / 2, "the call after it, ",
             name_of(form), ": error ", rc, ", got ", out[999]);
  }
}

struct ReturnErrors {
  explicit ReturnErrors(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_get_errhandler(comm, &before_);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  ~ReturnErrors() {
    MPI_Comm_set_errhandler(comm_, before_);
    MPI_Errhandler_free(&before_);
  }
  ReturnErrors(const ReturnErrors&) = delete;
  ReturnErrors& operator=(const ReturnErrors&) = delete;

 private:
  MPI_Comm comm_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

void wrong_arguments(Case& c) {
  const ReturnErrors guard(c.comm);
  std::array<double, 4> in{};
  std::array<double, 4> out{};
  refused(c, "negative count", in.data(), out.data(), -1, MPI_DOUBLE, MPI_SUM, MPI_ERR_COUNT,
          MPI_ERR_ARG);
  refused(c, "no type", in.data(), out.data(), 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_ERR_TYPE,
          MPI_ERR_OP);
  refused(c, "no operation", in.data(), out.data(), 1, MPI_DOUBLE, MPI_OP_NULL, MPI_ERR_OP,
          MPI_ERR_ARG);
  refused(c, "receive in place", in.data(), MPI_IN_PLACE, 1, MPI_DOUBLE, MPI_SUM, MPI_ERR_BUFFER,
          MPI_ERR_ARG);
  still_right(c);
}

void wrong_operation_for_type(Case& c) {
  const ReturnErrors guard(c.comm);
  std::array<double, 4> in{};
  std::array<double, 4> out{};
  refused(c, "MPI_BAND of MPI_DOUBLE", in.data(), out.data(), 1, MPI_DOUBLE, MPI_BAND, MPI_ERR_OP,
          MPI_ERR_TYPE);
  refused(c, "MPI_MAXLOC of MPI_INT", in.data(), out.data(), 1, MPI_INT, MPI_MAXLOC, MPI_ERR_OP,
          MPI_ERR_TYPE);
  refused(c, "MPI_MAX of MPI_C_DOUBLE_COMPLEX", in.data(), out.data(), 1, MPI_C_DOUBLE_COMPLEX,
          MPI_MAX, MPI_ERR_OP, MPI_ERR_TYPE);
  refused(c, "MPI_SUM of MPI_C_BOOL", in.data(), out.data(), 1, MPI_C_BOOL, MPI_SUM, MPI_ERR_OP,
          MPI_ERR_TYPE);
  refused(c, "MPI_LAND of MPI_INTEGER", in.data(), out.data(), 1, MPI_INTEGER, MPI_LAND, MPI_ERR_OP,
          MPI_ERR_TYPE);
  MPI_Datatype two = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_commit(&two);
  refused(c, "MPI_SUM of a derived type", in.data(), out.data(), 1, two, MPI_SUM, MPI_ERR_OP,
          MPI_ERR_TYPE);
  MPI_Type_free(&two);
  still_right(c);
}

// Ranks that disagree on the count: a user's error that must be named, never a wrong result taken
// for a right one. Afterwards the communicator may be unusable: runs only by name, on a duplicate.
void counts_differ(Case& c) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(c.comm, &comm);
  const ReturnErrors guard(comm);
  std::vector<int> in(100, 1);
  std::vector<int> out(100, 0);
  const int count = c.rank == 0 ? 10 : 100;
  const int rc = MPI_Allreduce(in.data(), out.data(), count, MPI_INT, MPI_SUM, comm);
  const bool right = out[0] == c.size && out[static_cast<std::size_t>(count) - 1] == c.size;
  c.expect(rc != MPI_SUCCESS || right, "success returned with a wrong result");
  c.expect(c.rank != 0 || rc != MPI_SUCCESS, "rank 0, which gave fewer elements, saw no error");
  if (rc != MPI_SUCCESS) {
    const int got = error_class(rc);
    c.expect(got > MPI_SUCCESS && got <= MPI_ERR_LASTCODE, "no MPI error class: ", got);
  }
}

// Messages of a broken communicator may come after the program has freed it. A communicator made
// after it is another one: its sums are right. Nobody waits for ever for who is gone.
void healthy_after_broken(Case& c) {
  for (const std::size_t count : {std::size_t{10}, std::size_t{16385}}) {
    for (int life = 0; life < 20 && !c.failed(); ++life) {
      std::vector<int> in(count + 1, 1000000);
      std::vector<int> out(count + 1, -1);
      const std::size_t wrong = count + (c.rank == c.size - 1 ? 1 : 0);
      MPI_Comm comm = MPI_COMM_NULL;
      MPI_Comm_dup(c.comm, &comm);
      MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
      const int broken =
          MPI_Allreduce(in.data(), out.data(), static_cast<int>(wrong), MPI_INT, MPI_SUM, comm);
      c.expect(broken != MPI_SUCCESS, "counts differ, and no error");
      MPI_Comm_free(&comm);
      MPI_Comm_dup(c.comm, &comm);
      in.assign(count, 1);
      MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_INT, MPI_SUM, comm);
      c.expect(out[0] == c.size && out[count - 1] == c.size, count, " elements, life ", life,
               ": got ", out[0], " and ", out[count - 1]);
      MPI_Comm_free(&comm);
    }
  }
}

constexpr Entry cases[] = {
    {"wrong_arguments", wrong_arguments},
    {"wrong_operation_for_type", wrong_operation_for_type},
    {"counts_differ", counts_differ, When::by_name},
    {"healthy_after_broken", healthy_after_broken, When::by_name},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
