// User-defined operations and derived types: rank order, gaps left alone, lower bounds, extents far
// larger or smaller than the data, and another layout of the same signature on every rank.
#include <algorithm>
#include <functional>

#include "harness.h"
#include "layouts.h"

using namespace mpitest;
using namespace mpitest::layouts;

namespace {

// The layout that the operation finds on this rank, and whether MPI handed it that type.
const Layout* current_layout = nullptr;
bool handed_another_type = false;

void combine(void* in, void* inout, const int* count, const MPI_Datatype* type,
             const std::function<Matrix(const Matrix&, const Matrix&)>& combine_two) {
  MPI_Aint lower_bound = 0;
  MPI_Aint extent = 0;
  MPI_Type_get_extent(*type, &lower_bound, &extent);
  if (lower_bound != current_layout->lower_bound || extent != current_layout->extent) {
    handed_another_type = true;
    return;
  }
  combine_elements(in, inout, *count, *current_layout, combine_two);
}

void multiply_op(void* in, void* inout, int* count, MPI_Datatype* type) {
  combine(in, inout, count, type, multiply);
}

void add_op(void* in, void* inout, int* count, MPI_Datatype* type) {
  combine(in, inout, count, type, add);
}

struct Operation {
  const char* name;
  MPI_User_function* function;
  int commutes;
  Matrix (*combine_two)(const Matrix&, const Matrix&);
};
constexpr Operation matrix_product{"matrix product", multiply_op, 0, multiply};
constexpr Operation matrix_sum{"matrix sum", add_op, 1, add};

void check(Case& c, const Operation& operation, const Layout& layout, std::size_t count) {
  MPI_Datatype type = make_type(layout);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(operation.function, operation.commutes, &op);
  current_layout = &layout;
  handed_another_type = false;
  std::uint64_t seed = c.seed;
  for (const Form form : all_forms) {
    for (const Place place : both_places) {
      seed += 1000;
      LaidOut in(layout, count);
      LaidOut out(layout, count);
      LaidOut expected(layout, count);
      for (std::size_t i = 0; i < count; ++i) {
        Matrix total = value_of(seed, 0, i);
        for (int rank = 1; rank < c.size; ++rank) {
          total = operation.combine_two(total, value_of(seed, rank, i));
        }
        store(in.element(i), layout, value_of(seed, c.rank, i));
        store(expected.element(i), layout, total);
        if (place == Place::in_place) store(out.element(i), layout, value_of(seed, c.rank, i));
      }
      const std::vector<std::byte> sent = in.bytes();
      const void* from = place == Place::in_place ? MPI_IN_PLACE : in.base();
      const int rc = allreduce(form, from, out.base(), count, type, op, c.comm);
      const auto check_that = [&](bool ok, const char* what) {
        c.expect(ok, operation.name, ", ", layout.name, ", ", name_of(form), ", ", name_of(place),
                 ", count ", count, ": ", what);
      };
      check_that(rc == MPI_SUCCESS, "error returned");
      check_that(!handed_another_type, "the operation was handed another type");
      check_that(in.bytes() == sent, "the send buffer changed");
      bool right = true;
      for (std::size_t i = 0; i < count; ++i) {
        right = right && load(out.element(i), layout) == load(expected.element(i), layout);
      }
      check_that(right, "wrong result");
      check_that(out.bytes() == expected.bytes(), "wrote into a gap");
    }
  }
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

template <const Operation& operation>
void every_layout(Case& c) {
  for (const Layout& layout : layouts::all) {
    for (const std::size_t count : {1, 2, 3, 7, 100, 3000}) {
      if (count <= layout.most) check(c, operation, layout, count);
    }
  }
}

// MPI wants the same signature on all ranks, not the same layout.
template <const Operation& operation>
void layout_differs_by_rank(Case& c) {
  for (std::size_t first = 0; first < std::size(layouts::all); ++first) {
    const std::size_t mine = (first + static_cast<std::size_t>(c.rank)) % std::size(layouts::all);
    for (const std::size_t count : {1, 7, 12}) check(c, operation, layouts::all[mine], count);
  }
}

void negative_extent(Case& c) {
  for (const std::size_t count : {1, 2, 7, 1000}) check(c, matrix_product, backwards, count);
}

void large_matrices(Case& c) {
  check(c, matrix_product, layouts::all[0], 100000);
}

struct Text {
  std::int32_t length;
  char letters[60];
};

void concatenate(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < *count; ++i) {
    const Text& left = static_cast<Text*>(in)[i];
    Text& right = static_cast<Text*>(inout)[i];
    Text joined = left;
    std::memcpy(joined.letters + left.length, right.letters,
                static_cast<std::size_t>(right.length));
    joined.length += right.length;
    right = joined;
  }
}

// Rank order as anyone can read it: the texts of all ranks, one after the other.
void strings_in_rank_order(Case& c) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(sizeof(Text), MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(concatenate, 0, &op);
  const auto text_of = [](int rank, std::size_t i) {
    std::string text(1 + (i + static_cast<std::size_t>(rank)) % 3, static_cast<char>('a' + rank));
    return text + static_cast<char>('0' + i % 10);
  };
  for (const Form form : all_forms) {
    for (const std::size_t count : {1, 5, 64, 1000}) {
      std::vector<Text> in(count);
      std::vector<Text> out(count);
      for (std::size_t i = 0; i < count; ++i) {
        const std::string text = text_of(c.rank, i);
        in[i].length = static_cast<std::int32_t>(text.size());
        std::copy(text.begin(), text.end(), in[i].letters);
      }
      allreduce(form, in.data(), out.data(), count, type, op, c.comm);
      for (std::size_t i = 0; i < count; ++i) {
        std::string expected;
        for (int rank = 0; rank < c.size; ++rank) expected += text_of(rank, i);
        const std::string got(out[i].letters,
                              static_cast<std::size_t>(std::clamp(out[i].length, 0, 60)));
        if (!c.expect(got == expected, name_of(form), ", count ", count, ", element ", i, ": got '",
                      got, "', expected '", expected, "'")) {
          break;
        }
      }
    }
  }
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

struct Padded {  // four bytes of padding at its end
  double value;
  std::int32_t index;
};

// Assigns whole structures, padding included, as C++ programs do.
void keep_larger(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  for (int i = 0; i < *count; ++i) {
    const Padded& left = static_cast<Padded*>(in)[i];
    Padded& right = static_cast<Padded*>(inout)[i];
    if (left.value >= right.value) right = left;
  }
}

void struct_with_tail_padding(Case& c) {
  const std::array<int, 2> lengths{1, 1};
  const std::array<MPI_Aint, 2> offsets{offsetof(Padded, value), offsetof(Padded, index)};
  const std::array<MPI_Datatype, 2> types{MPI_DOUBLE, MPI_INT32_T};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(2, lengths.data(), offsets.data(), types.data(), &type);
  MPI_Type_commit(&type);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(keep_larger, 1, &op);
  const auto value = [&](int rank, std::size_t i) {
    return static_cast<double>(mix(c.seed, static_cast<std::uint64_t>(rank), i) % 1000000);
  };
  for (const Form form : all_forms) {
    for (const Place place : both_places) {
      for (const std::size_t count : {1, 3, 1000}) {
        Guarded in(count * sizeof(Padded));
        Guarded out(count * sizeof(Padded));
        for (std::size_t i = 0; i < count; ++i) {
          const Padded mine{value(c.rank, i), c.rank};
          std::memcpy(in.data() + i * sizeof mine, &mine, sizeof mine);
          if (place == Place::in_place) {
            std::memcpy(out.data() + i * sizeof mine, &mine, sizeof mine);
          }
        }
        const void* from = place == Place::in_place ? MPI_IN_PLACE : in.data();
        allreduce(form, from, out.data(), count, type, op, c.comm);
        for (std::size_t i = 0; i < count; ++i) {
          int best = 0;
          for (int rank = 1; rank < c.size; ++rank) {
            if (value(rank, i) > value(best, i)) best = rank;
          }
          Padded got;
          std::memcpy(&got, out.data() + i * sizeof got, sizeof got);
          if (!c.expect(got.index == best && got.value == value(best, i), name_of(form), ", ",
                        name_of(place), ", count ", count, ", wrong element ", i)) {
            break;
          }
        }
        c.expect(out.damage() == Guarded::intact, name_of(form), ", count ", count,
                 ": wrote beside the buffer at byte ", out.damage());
      }
    }
  }
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

void keep_left(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  std::memcpy(inout, in, static_cast<std::size_t>(*count) * sizeof(double));
}

void keep_right(void* /*in*/, void* /*inout*/, int* /*count*/, MPI_Datatype* /*type*/) {}

// The two simplest associative operations that do not commute, on a predefined type.
void left_and_right(Case& c) {
  for (const bool left : {true, false}) {
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(left ? keep_left : keep_right, 0, &op);
    const int winner = left ? 0 : c.size - 1;
    for (const Form form : all_forms) {
      for (const Place place : both_places) {
        for (const std::size_t count : {1, 2, 10, 1000, 100000}) {
          std::vector<double> in(count, 1.0 + c.rank);
          std::vector<double> out(count, place == Place::in_place ? 1.0 + c.rank : -1.0);
          const void* from = place == Place::in_place ? MPI_IN_PLACE : in.data();
          allreduce(form, from, out.data(), count, MPI_DOUBLE, op, c.comm);
          const auto wrong =
              std::find_if(out.begin(), out.end(), [&](double x) { return x != 1.0 + winner; });
          c.expect(wrong == out.end(), left ? "left" : "right", ", ", name_of(form), ", ",
                   name_of(place), ", count ", count, ", element ", wrong - out.begin());
        }
      }
    }
    MPI_Op_free(&op);
  }
}

constexpr Entry cases[] = {
    {"matrix_product", every_layout<matrix_product>},
    {"matrix_sum", every_layout<matrix_sum>},
    {"matrix_product_layout_differs_by_rank", layout_differs_by_rank<matrix_product>},
    {"matrix_sum_layout_differs_by_rank", layout_differs_by_rank<matrix_sum>},
    {"negative_extent", negative_extent, When::by_name},
    {"large_matrices", large_matrices},
    {"strings_in_rank_order", strings_in_rank_order},
    {"struct_with_tail_padding", struct_with_tail_padding},
    {"left_and_right", left_and_right},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
