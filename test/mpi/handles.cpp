// The handles of gpuar.h: 16-bit types, and the average, in every form of the call; and what
// happens where gpuar does not serve.
#include "handles.h"

#include <complex>

#include "handles_c.h"

using namespace mpitest;
using reference::Brain;
using reference::Half;

namespace {

constexpr std::array<std::size_t, 4> counts{1, 16, 211, 20011};

// --- Values -------------------------------------------------------------------------------------

// Small whole numbers: their sums are exact in any order, also in bf16.
double small(int rank, std::size_t i) {
  return static_cast<double>(mix(static_cast<std::uint64_t>(rank), i) % 25) - 12;
}

// The sum of such numbers.
template <class T>
T small_sum(int size, std::size_t i) {
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += small(rank, i);
  if constexpr (reference::is_complex<T>) {
    using Part = typename T::value_type;
    return {static_cast<Part>(sum), static_cast<Part>(3 * size - sum)};
  } else {
    return number<T>(sum);
  }
}

// Any bits at all but NaN.
template <class T>
T any_bits(int rank, std::size_t i) {
  const T value{static_cast<std::uint16_t>(mix(static_cast<std::uint64_t>(rank) + 99, i))};
  return std::isnan(value.value()) ? number<T>(0.3) : value;
}

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (reference::is_complex<T>)
    return same(a.real(), b.real()) && same(a.imag(), b.imag());
  else
    return reference::same_bits(&a, &b, 1);
}

// --- Checks -------------------------------------------------------------------------------------

// All forms and places: rank r gives value(r, i), and each must have expected(i).
template <class T, class Value, class Expected>
void check(Case& c, const char* what, MPI_Datatype type, MPI_Op op, Value value,
           Expected expected) {
  for (const std::size_t count : counts) {
    std::vector<T> in(count);
    for (std::size_t i = 0; i < count; ++i) in[i] = value(c.rank, i);
    for (const Form form : all_forms) {
      for (const Place place : both_places) {
        std::vector<T> out = place == Place::in_place ? in : std::vector<T>(count);
        const void* from = place == Place::in_place ? MPI_IN_PLACE : in.data();
        const int rc = allreduce(form, from, out.data(), count, type, op, c.comm);
        c.expect(rc == MPI_SUCCESS, what, ": error ", rc);
        std::size_t wrong = 0;
        while (wrong < count && same(out[wrong], expected(wrong))) ++wrong;
        if (!c.expect(wrong == count, what, ", ", name_of(form), ", ", name_of(place), ", count ",
                      count, ", element ", wrong)) {
          return;
        }
      }
    }
  }
}

template <class T>
void check_half_ops(Case& c, gpuar_type_name type_name, const char* what) {
  const Type type(type_name);
  const Op sum(GPUAR_SUM), least(GPUAR_MIN), most(GPUAR_MAX);
  check<T>(
      c, what, type, sum, [](int rank, std::size_t i) { return number<T>(small(rank, i)); },
      [&](std::size_t i) { return small_sum<T>(c.size, i); });
  const auto over_ranks = [&](std::size_t i, gpuar_op_name op) {
    T best = any_bits<T>(0, i);
    for (int rank = 1; rank < c.size; ++rank) {
      const T next = any_bits<T>(rank, i);
      const bool less = next.value() < best.value();
      const bool more = next.value() > best.value();
      if (op == GPUAR_MIN ? less : more) best = next;
    }
    return best;
  };
  check<T>(c, what, type, least, any_bits<T>,
           [&](std::size_t i) { return over_ranks(i, GPUAR_MIN); });
  check<T>(c, what, type, most, any_bits<T>,
           [&](std::size_t i) { return over_ranks(i, GPUAR_MAX); });
  if (c.size != 2) return;  // of two numbers there is one sum
  check<T>(c, what, type, sum, any_bits<T>, [](std::size_t i) {
    const double a = any_bits<T>(0, i).value(), b = any_bits<T>(1, i).value();
    return T::nearest(static_cast<float>(a) + static_cast<float>(b));
  });
}

void half_ops(Case& c) {
  check_half_ops<Half>(c, GPUAR_FP16, "fp16");
  check_half_ops<Brain>(c, GPUAR_BF16, "bf16");
}

template <class T>
void check_average(Case& c, const char* what, MPI_Datatype type, MPI_Op op) {
  check<T>(
      c, what, type, op, [](int rank, std::size_t i) { return number<T>(small(rank, i)); },
      [&](std::size_t i) { return reference::divide(small_sum<T>(c.size, i), c.size); });
}

void averages(Case& c) {
  const ErrorsReturn errors;
  const Op average(GPUAR_AVERAGE);
  const Type half(GPUAR_FP16), brain(GPUAR_BF16);
  check_average<Half>(c, "average of fp16", half, average);
  check_average<Brain>(c, "average of bf16", brain, average);
  check_average<float>(c, "average of MPI_FLOAT", MPI_FLOAT, average);
  check_average<double>(c, "average of MPI_DOUBLE", MPI_DOUBLE, average);
  check_average<long double>(c, "average of MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, average);
  check_average<std::complex<float>>(c, "average of MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX,
                                     average);
  check_average<std::complex<double>>(c, "average of MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX,
                                      average);
  c.expect(errors_seen == 0, "the error handler was called");
}

// Values whose sum is rounded: every rank must have the bits of rank 0, and every form those of the
// blocking one.
void average_bits(Case& c) {
  const ErrorsReturn errors;
  const Op average(GPUAR_AVERAGE);
  constexpr std::size_t count = 4099;
  std::vector<float> in(count);
  for (std::size_t i = 0; i < count; ++i) {
    in[i] = static_cast<float>(mix(c.seed, static_cast<std::uint64_t>(c.rank), i) >> 20U) / 7.0F;
  }
  std::vector<float> first;
  for (const Form form : all_forms) {
    std::vector<float> out(in);
    allreduce(form, MPI_IN_PLACE, out.data(), count, MPI_FLOAT, average, c.comm);
    if (first.empty()) first = out;
    c.expect(reference::same_bits(out.data(), first.data(), count), name_of(form),
             " differs from blocking");
  }
  std::vector<float> of_rank_0 = first;
  MPI_Bcast(of_rank_0.data(), count, MPI_FLOAT, 0, c.comm);
  c.expect(reference::same_bits(of_rank_0.data(), first.data(), count), "differs from rank 0");
  double sum = 0;
  std::vector<float> all(static_cast<std::size_t>(c.size));
  MPI_Allgather(in.data(), 1, MPI_FLOAT, all.data(), 1, MPI_FLOAT, c.comm);
  for (const float each : all) sum += each;
  c.expect(std::fabs(first[0] - sum / c.size) <= 1e-5 * sum / c.size, "not the average");
}

// Datatypes made of fp16, with and without gaps.
void derived_types(Case& c) {
  const ErrorsReturn errors;
  const Type half(GPUAR_FP16);
  const Type pairs([&](MPI_Datatype* made) { MPI_Type_contiguous(2, half, made); });
  const Type gaps([&](MPI_Datatype* made) { MPI_Type_vector(2, 1, 2, half, made); });
  const Type copy([&](MPI_Datatype* made) { MPI_Type_dup(half, made); });
  const Type wide([&](MPI_Datatype* made) { MPI_Type_create_resized(copy, 0, 8, made); });
  const Type both([&](MPI_Datatype* made) {
    const int lengths[2] = {1, 1};
    const MPI_Aint places[2] = {0, 6};
    const MPI_Datatype types[2] = {pairs, copy};
    MPI_Type_create_struct(2, lengths, places, types, made);
  });
  const Type many([&](MPI_Datatype* made) {
    const std::array<int, 6> lengths{1, 1, 1, 1, 1, 1};
    const std::array<int, 6> places{0, 2, 4, 6, 8, 10};
    MPI_Type_indexed(6, lengths.data(), places.data(), half, made);
  });
  const struct {
    const char* name;
    MPI_Datatype type;
    std::vector<bool> holds;  // the elements of one extent
  } layouts[] = {
      {"contiguous", pairs, {true, true}},
      {"vector", gaps, {true, false, true}},
      {"duplicate", copy, {true}},
      {"resized", wide, {true, false, false, false}},
      {"struct", both, {true, true, false, true}},
      {"indexed", many, {true, false, true, false, true, false, true, false, true, false, true}}};
  std::vector<std::pair<const char*, gpuar_op_name>> ops{{"sum", GPUAR_SUM}, {"max", GPUAR_MAX}};
  if (option("average", 1) != 0) ops.emplace_back("average", GPUAR_AVERAGE);
  constexpr std::size_t count = 500;
  const Half untouched{0x7bcd};
  for (const auto& layout : layouts) {
    for (const auto& [op_name, op_kind] : ops) {
      const Op op(op_kind);
      for (const Form form : all_forms) {
        const std::size_t extent = layout.holds.size();
        std::vector<Half> in(count * extent, untouched), out(in), expected(in);
        for (std::size_t i = 0; i < in.size(); ++i) {
          if (!layout.holds[i % extent]) continue;
          in[i] = number<Half>(small(c.rank, i));
          double most = small(0, i);
          for (int rank = 1; rank < c.size; ++rank) most = std::max(most, small(rank, i));
          const Half sum = small_sum<Half>(c.size, i);
          expected[i] = op_kind == GPUAR_SUM   ? sum
                        : op_kind == GPUAR_MAX ? number<Half>(most)
                                               : reference::divide(sum, c.size);
        }
        const int rc = allreduce(form, in.data(), out.data(), count, layout.type, op, c.comm);
        c.expect(rc == MPI_SUCCESS, layout.name, ": error ", rc);
        c.expect(reference::same_bits(out.data(), expected.data(), out.size()), layout.name, ", ",
                 op_name, ", ", name_of(form));
      }
    }
  }
  c.expect(errors_seen == 0, "the error handler was called");
}

// A persistent request, started again with other values; handles freed once it is made.
void restarted(Case& c) {
  const ErrorsReturn errors;
  constexpr std::size_t count = 1000;
  std::vector<Half> data(2 * count);
  MPI_Request request = MPI_REQUEST_NULL;
  {
    const Op average(GPUAR_AVERAGE);
    const Type half(GPUAR_FP16);
    const Type gaps([&](MPI_Datatype* made) { MPI_Type_create_resized(half, 0, 4, made); });
    for (std::size_t i = 0; i < count; ++i) data[2 * i] = number<Half>(small(c.rank, i));
    start_allreduce(Form::persistent, MPI_IN_PLACE, data.data(), count, gaps, average, c.comm,
                    &request);
  }
  for (std::size_t round = 0; round < 4; ++round) {
    if (round > 0) {
      for (std::size_t i = 0; i < count; ++i) data[2 * i] = number<Half>(small(c.rank, i + round));
      MPI_Start(&request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (std::size_t i = 0; i < count; ++i) {
      const Half expected = reference::divide(small_sum<Half>(c.size, i + round), c.size);
      if (!c.expect(same(data[2 * i], expected), "round ", round, ", element ", i)) break;
    }
  }
  MPI_Request_free(&request);
}

// Handles that another translation unit made, together with this one's.
void other_unit(Case& c) {
  MPI_Datatype half = half_made_in_c();
  MPI_Op sum = sum_made_in_c();
  const Op own_sum(GPUAR_SUM);
  const Type own_half(GPUAR_FP16);
  const auto value = [](int rank, std::size_t i) { return number<Half>(small(rank, i)); };
  const auto expected = [&](std::size_t i) { return small_sum<Half>(c.size, i); };
  check<Half>(c, "type of the other", half, own_sum, value, expected);
  check<Half>(c, "operation of the other", own_half, sum, value, expected);
  MPI_Op_free(&sum);
  MPI_Type_free(&half);
}

void add_doubles(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < *count; ++i) static_cast<double*>(inout)[i] += static_cast<double*>(in)[i];
}

// An operation of the program's own, where a freed handle of gpuar.h was, is not taken for that.
void freed_handles(Case& c) {
  const ErrorsReturn errors;
  for (int round = 0; round < 200; ++round) {
    {
      const Op average(GPUAR_AVERAGE);
      double mine = c.rank;
      MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, average, c.comm);
      c.expect(mine == (c.size - 1) / 2.0, "average ", mine);
    }
    MPI_Op own = MPI_OP_NULL;
    MPI_Op_create(add_doubles, 1, &own);
    double mine = 1;
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, own, c.comm);
    c.expect(mine == c.size, "sum ", mine);
    MPI_Op_free(&own);
  }
}

void one_rank(Case& c) {
  const Op average(GPUAR_AVERAGE);
  for (const Form form : all_forms) {
    double in = c.rank + 0.3, out = 0;
    allreduce(form, &in, &out, 1, MPI_DOUBLE, average, MPI_COMM_SELF);
    c.expect(out == in, name_of(form), ": ", out);
  }
}

constexpr Entry cases[] = {
    {"half_ops", half_ops},           {"averages", averages},   {"average_bits", average_bits},
    {"derived_types", derived_types}, {"restarted", restarted}, {"other_unit", other_unit},
    {"freed_handles", freed_handles}, {"one_rank", one_rank},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
