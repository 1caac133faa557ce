// Every predefined operation on every predefined type, of predefined.h, in all forms and places.
#include "predefined.h"

using namespace mpitest;
using predefined::NamedType;

namespace {

template <class T>
T load(const std::byte* from, std::size_t i) {
  T value;
  std::memcpy(&value, from + i * sizeof(T), sizeof value);
  return value;
}

// Reduces in all forms and places, at counts that do and do not fill vector registers, and compares
// with `combine` applied from rank 0 upwards.
template <class Value, class Combine, class Same>
void check(Case& c, const NamedType& type, const char* op_name, MPI_Op op, Value value,
           Combine combine, Same same) {
  using T = decltype(combine(value(0, 0), value(0, 0)));
  if (!predefined::exists(type.handle)) return;
  int type_bytes = 0;
  MPI_Type_size(type.handle, &type_bytes);
  if (!c.expect(type_bytes <= static_cast<int>(sizeof(T)), type.name, " is larger than thought")) {
    return;
  }
  constexpr std::size_t most = 211;
  std::vector<T> expected(most);
  for (std::size_t i = 0; i < most; ++i) {
    expected[i] = value(0, i);
    for (int rank = 1; rank < c.size; ++rank) expected[i] = combine(expected[i], value(rank, i));
  }
  for (const Form form : all_forms) {
    for (const Place place : both_places) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{16}, most}) {
        Guarded in(count * sizeof(T));
        Guarded out(count * sizeof(T));
        for (std::size_t i = 0; i < count; ++i) {
          const T mine = value(c.rank, i);
          std::memcpy(in.data() + i * sizeof(T), &mine, sizeof mine);
          if (place == Place::in_place) {
            std::memcpy(out.data() + i * sizeof(T), &mine, sizeof mine);
          }
        }
        const void* from = place == Place::in_place ? MPI_IN_PLACE : in.data();
        const int rc = allreduce(form, from, out.data(), count, type.handle, op, c.comm);
        c.expect(rc == MPI_SUCCESS, op_name, " of ", type.name, ": error ", rc);
        c.expect(out.damage() == Guarded::intact, op_name, " of ", type.name,
                 ": wrote beside the buffer");
        for (std::size_t i = 0; i < count; ++i) {
          if (!c.expect(same(load<T>(out.data(), i), expected[i]), op_name, " of ", type.name, ", ",
                        name_of(form), ", ", name_of(place), ", count ", count, ", element ", i)) {
            break;
          }
        }
      }
    }
  }
}

// The checks of one case.
auto checks(Case& c) {
  return [&c](const NamedType& type, const char* op_name, MPI_Op op, auto value, auto combine,
              auto same) { check(c, type, op_name, op, value, combine, same); };
}

constexpr Entry cases[] = {
    {"c_integers", [](Case& c) { predefined::c_integers(checks(c)); }},
    {"unsigned_long", [](Case& c) { predefined::unsigned_long(checks(c)); }},
    {"sized_integers", [](Case& c) { predefined::sized_integers(checks(c)); }},
    {"multi_language_integers", [](Case& c) { predefined::multi_language_integers(checks(c)); }},
    {"fortran_integers", [](Case& c) { predefined::fortran_integers(checks(c)); }},
    {"bytes", [](Case& c) { predefined::bytes(checks(c)); }},
    {"reals", [](Case& c) { predefined::reals(checks(c)); }},
    {"complex_numbers", [](Case& c) { predefined::complex_numbers(checks(c)); }},
    {"truth_values", [](Case& c) { predefined::truth_values(checks(c)); }},
    {"pairs", [](Case& c) { predefined::pairs(checks(c)); }},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
