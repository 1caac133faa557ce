// The handles of gpuar.h where there is no result to be had: an error, and never a sum for an
// average.
#include "handles.h"

using namespace mpitest;
using reference::Half;

namespace {

// What the operations do not take: an error, on every rank, and no message.
void wrong_types(Case& c) {
  const ErrorsReturn errors;
  const Op average(GPUAR_AVERAGE), sum(GPUAR_SUM);
  const Type half(GPUAR_FP16);
  const Type mixed([&](MPI_Datatype* made) {
    const int lengths[2] = {1, 1};
    const MPI_Aint places[2] = {0, 4};
    const MPI_Datatype types[2] = {MPI_FLOAT, half};
    MPI_Type_create_struct(2, lengths, places, types, made);
  });
  const Type bytes([&](MPI_Datatype* made) { MPI_Type_contiguous(2, MPI_BYTE, made); });
  const struct {
    const char* name;
    MPI_Op op;
    MPI_Datatype type;
  } calls[] = {
      {"average of int", average, MPI_INT},     {"average of pairs", average, MPI_FLOAT_INT},
      {"average of a mixture", average, mixed}, {"average of bytes", average, bytes},
      {"sum of float", sum, MPI_FLOAT},         {"sum of uint16", sum, MPI_UINT16_T}};
  int expected_errors = 0;
  for (const auto& call : calls) {
    for (const Form form : all_forms) {
      std::array<double, 8> data{};
      int error_class = MPI_SUCCESS;
      const int rc = allreduce(form, MPI_IN_PLACE, data.data(), 2, call.type, call.op, c.comm);
      MPI_Error_class(rc, &error_class);
      c.expect(error_class == MPI_ERR_OP, call.name, ", ", name_of(form), ": class ", error_class);
      c.expect(errors_seen == ++expected_errors, call.name, ": ", errors_seen, " errors seen");
    }
  }
  double mine = c.rank;
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, average, c.comm);
  c.expect(mine == (c.size - 1) / 2.0, "the communicator is of no more use: ", mine);
}

// Without gpuar in the process: no handle, and a text that says why.
void average_refused(Case& c) {
  const ErrorsReturn errors;
  MPI_Op op = MPI_SUM;
  const int rc = gpuar_op(GPUAR_AVERAGE, &op);
  int error_class = MPI_SUCCESS, length = 0;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  MPI_Error_class(rc, &error_class);
  MPI_Error_string(rc, text.data(), &length);
  c.expect(op == MPI_OP_NULL, "there is a handle");
  c.expect(error_class == MPI_ERR_UNSUPPORTED_OPERATION, "class ", error_class);
  c.expect(std::strstr(text.data(), "--mca coll gpuar") != nullptr, "text: ", text.data());
  c.expect(errors_seen == 1, errors_seen, " errors seen");
}

// Where another component reduces: NaN on every rank, and an error on some.
template <class T>
void check_not_a_number(Case& c, const char* what, MPI_Datatype type, MPI_Op op) {
  constexpr std::size_t count = 333;
  for (const Form form : all_forms) {
    std::vector<T> in(count, number<T>(1)), out(count, number<T>(1));
    errors_seen = 0;
    allreduce(form, in.data(), out.data(), count, type, op, c.comm);
    int here = errors_seen, anywhere = 0;
    MPI_Allreduce(&here, &anywhere, 1, MPI_INT, MPI_SUM, c.comm);
    c.expect(anywhere > 0, what, ", ", name_of(form), ": no error");
    for (const T each : out) {
      double value = 0;
      if constexpr (reference::is_narrow<T>)
        value = each.value();
      else
        value = static_cast<double>(each);
      if (!c.expect(std::isnan(value), what, ", ", name_of(form), ": ", value)) break;
    }
  }
}

void average_declined(Case& c) {
  const ErrorsReturn errors;
  const Op average(GPUAR_AVERAGE);
  const Type half(GPUAR_FP16);
  check_not_a_number<float>(c, "MPI_FLOAT", MPI_FLOAT, average);
  check_not_a_number<double>(c, "MPI_DOUBLE", MPI_DOUBLE, average);
  check_not_a_number<long double>(c, "MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, average);
  check_not_a_number<Half>(c, "fp16", half, average);
}

// MPI_Reduce is not gpuar's: no average from it, whoever serves the communicator.
void average_by_reduce(Case& c) {
  const ErrorsReturn errors;
  const Op average(GPUAR_AVERAGE);
  double in = 1, out = 1;
  MPI_Reduce(&in, &out, 1, MPI_DOUBLE, average, 0, c.comm);
  if (c.rank == 0) c.expect(std::isnan(out), "MPI_Reduce gives ", out);
  // Sums of halves it gives.
  const Op sum(GPUAR_SUM);
  const Type half(GPUAR_FP16);
  Half one = number<Half>(1), all = one;
  errors_seen = 0;
  MPI_Reduce(&one, &all, 1, half, sum, 0, c.comm);
  if (c.rank == 0) c.expect(all.value() == c.size, "sum ", all.value());
  c.expect(errors_seen == 0, "the error handler was called");
  const double mine = 1;
  double total = 0;
  MPI_Allreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, c.comm);
  c.expect(total == c.size, "sum of doubles ", total);
}

// Without an error handler of its own a program ends there.
void average_fatal(Case& c) {
  const Op average(GPUAR_AVERAGE);
  double mine = 1;
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, average, c.comm);
}

constexpr Entry cases[] = {
    {"wrong_types", wrong_types},
    {"average_by_reduce", average_by_reduce},
    {"average_refused", average_refused, When::by_name},
    {"average_declined", average_declined, When::by_name},
    {"average_fatal", average_fatal, When::by_name},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
