// Derived types of four numbers an element: gaps, lower bounds, extents far larger or smaller than
// the data. And two operations on them: one that commutes, and one that does not.
#pragma once

#include <algorithm>

#include "harness.h"

namespace mpitest::layouts {

inline constexpr int numbers = 4;  // per element: a 2×2 matrix
inline constexpr std::int64_t prime = 1009;
using Matrix = std::array<std::int32_t, numbers>;

inline Matrix value_of(std::uint64_t seed, int rank, std::size_t i) {
  Matrix matrix;
  for (int k = 0; k < numbers; ++k) {
    const std::uint64_t bits =
        mix(seed + static_cast<std::uint64_t>(rank), i, static_cast<std::uint64_t>(k));
    matrix[k] = static_cast<std::int32_t>(bits % prime);
  }
  return matrix;
}

inline Matrix multiply(const Matrix& a, const Matrix& b) {
  const auto entry = [&](std::size_t row, std::size_t column) {
    const std::int64_t sum =
        std::int64_t{a[2 * row]} * b[column] + std::int64_t{a[2 * row + 1]} * b[2 + column];
    return static_cast<std::int32_t>(sum % prime);
  };
  return {entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)};
}

inline Matrix add(const Matrix& a, const Matrix& b) {
  Matrix sum;
  for (int k = 0; k < numbers; ++k) sum[k] = static_cast<std::int32_t>((a[k] + b[k]) % prime);
  return sum;
}

// Where the four numbers of an element lie, and how far the next element is.
struct Layout {
  const char* name;
  std::array<MPI_Aint, numbers> offsets;
  MPI_Aint lower_bound;
  MPI_Aint extent;
  std::size_t most;  // elements that fit without overlap, or that memory should hold
};

inline constexpr std::size_t any = 3000;
inline constexpr Layout all[] = {
    {"contiguous", {0, 4, 8, 12}, 0, 16, any},
    {"padded struct", {0, 8, 12, 20}, 0, 32, any},
    {"gaps", {0, 8, 16, 24}, 0, 28, any},
    {"lower bound 16", {16, 20, 24, 28}, 16, 16, any},
    {"lower bound -24", {-16, -12, -8, -4}, -24, 40, any},
    {"data far from the lower bound", {4096, 4100, 4104, 4108}, 0, 16, any},
    {"backwards in memory", {12, 8, 4, 0}, 0, 16, any},
    {"extent of 64 KiB", {0, 4, 8, 12}, 0, 65536, 20},
    {"columns of a matrix", {0, 48, 96, 144}, 0, 4, 12},
};

// Each element lies before the last one. Open MPI 4.1.4 frees a wrong pointer here.
inline constexpr Layout backwards{"elements backwards", {0, 4, 8, 12}, 0, -16, any};

inline MPI_Datatype make_type(const Layout& layout) {
  MPI_Datatype plain = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed_block(numbers, 1, layout.offsets.data(), MPI_INT32_T, &plain);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(plain, layout.lower_bound, layout.extent, &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&plain);
  return type;
}

inline Matrix load(const std::byte* element, const Layout& layout) {
  Matrix matrix;
  for (int k = 0; k < numbers; ++k) std::memcpy(&matrix[k], element + layout.offsets[k], 4);
  return matrix;
}

inline void store(std::byte* element, const Layout& layout, const Matrix& matrix) {
  for (int k = 0; k < numbers; ++k) std::memcpy(element + layout.offsets[k], &matrix[k], 4);
}

// inout = in ∘ inout, as an MPI operation does it.
template <class Combine>
void combine_elements(const void* in, void* inout, int count, const Layout& layout,
                      Combine combine) {
  for (int i = 0; i < count; ++i) {
    const std::byte* left = static_cast<const std::byte*>(in) + i * layout.extent;
    std::byte* right = static_cast<std::byte*>(inout) + i * layout.extent;
    store(right, layout, combine(load(left, layout), load(right, layout)));
  }
}

// The bytes of a buffer of `count` elements; base() is the address that MPI is given.
class LaidOut {
 public:
  LaidOut(const Layout& layout, std::size_t count) : layout_(layout) {
    const auto [low, high] = std::minmax_element(layout.offsets.begin(), layout.offsets.end());
    const MPI_Aint last = layout.extent * (static_cast<MPI_Aint>(count) - 1);
    first_ = *low + std::min<MPI_Aint>(last, 0);
    bytes_.assign(static_cast<std::size_t>(*high + 4 + std::max<MPI_Aint>(last, 0) - first_),
                  std::byte{0x5A});
  }
  std::byte* base() { return bytes_.data() - first_; }
  std::byte* element(std::size_t i) { return base() + layout_.extent * static_cast<MPI_Aint>(i); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  const Layout& layout_;
  MPI_Aint first_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace mpitest::layouts
