// Messages beyond 2 GiB: more bytes than an int counts, as many elements as an int counts, and few
// elements of a huge type. In place, to need little memory. Each case is named on its own.
#include <algorithm>
#include <memory>

#include "harness.h"

using namespace mpitest;

namespace {

// Memory that is not zeroed first; the value at i is cheap to make and to check.
template <class T>
struct Buffer {
  explicit Buffer(std::size_t n) : size(n), data(std::make_unique_for_overwrite<T[]>(n)) {}
  std::size_t size;
  std::unique_ptr<T[]> data;
};

std::uint32_t pattern(std::size_t i) {
  return static_cast<std::uint32_t>(i * 2654435761U) >> 12U;
}

template <class T>
void fill(const Case& c, Buffer<T>& buffer) {
  for (std::size_t i = 0; i < buffer.size; ++i) {
    buffer.data[i] = static_cast<T>(pattern(i) + static_cast<std::uint32_t>(c.rank));
  }
}

template <class T>
void check(Case& c, const Buffer<T>& buffer) {
  const auto ranks = static_cast<std::uint32_t>(c.size);
  const std::uint32_t of_ranks = ranks * (ranks - 1) / 2;
  for (std::size_t i = 0; i < buffer.size; ++i) {
    const T expected = static_cast<T>(pattern(i) * ranks + of_ranks);
    if (!c.expect(buffer.data[i] == expected, "element ", i, ": got ", +buffer.data[i],
                  ", expected ", +expected)) {
      return;
    }
  }
}

void doubles_beyond_2_gib(Case& c) {
  Buffer<double> buffer((std::size_t{22} << 30U) / 10 / sizeof(double));
  fill(c, buffer);
  allreduce(Form::blocking, MPI_IN_PLACE, buffer.data.get(), buffer.size, MPI_DOUBLE, MPI_SUM,
            c.comm);
  check(c, buffer);
}

void most_bytes(Case& c) {
  Buffer<std::uint8_t> buffer(0x7fffffff);
  fill(c, buffer);
  allreduce(Form::nonblocking, MPI_IN_PLACE, buffer.data.get(), buffer.size, MPI_UINT8_T, MPI_SUM,
            c.comm);
  check(c, buffer);
}

constexpr std::size_t per_element = std::size_t{1} << 20U;

void add_blocks(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  const auto* from = static_cast<std::uint32_t*>(in);
  auto* to = static_cast<std::uint32_t*>(inout);
  const std::size_t n = static_cast<std::size_t>(*count) * per_element;
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}

void huge_type(Case& c) {
  constexpr std::size_t elements = 530;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(static_cast<int>(per_element), MPI_UINT32_T, &type);
  MPI_Type_commit(&type);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(add_blocks, 1, &op);
  Buffer<std::uint32_t> buffer(elements * per_element);
  fill(c, buffer);
  allreduce(Form::persistent, MPI_IN_PLACE, buffer.data.get(), elements, type, op, c.comm);
  check(c, buffer);
  MPI_Op_free(&op);
  MPI_Type_free(&type);
}

constexpr Entry cases[] = {
    {"doubles_beyond_2_gib", doubles_beyond_2_gib},
    {"most_bytes", most_bytes},
    {"huge_type", huge_type},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
