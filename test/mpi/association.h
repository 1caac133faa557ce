// Floating point numbers whose sums and products round differently in every association, and the
// one association that reproducible mode documents.
#pragma once

#include <complex>
#include <type_traits>

#include "harness.h"

namespace mpitest {

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

// Numbers of either sign and very different magnitude: every association rounds differently.
template <class T>
T random_number(std::uint64_t seed, int rank, std::size_t i) {
  if constexpr (IsComplex<T>::value) {
    using Part = typename T::value_type;
    return {random_number<Part>(seed, rank, i), random_number<Part>(seed + 1, rank, i)};
  } else {
    const std::uint64_t bits = mix(seed, static_cast<std::uint64_t>(rank), i);
    const T magnitude = 1 + static_cast<T>(bits >> 16U) / static_cast<T>(std::uint64_t{1} << 48U);
    const T scaled = magnitude * static_cast<T>(1U << (bits % 16));
    return (bits & 256U) != 0 ? -scaled : scaled;
  }
}

// The bytes that carry value: those of a long double end before its padding.
template <class T>
std::string value_bytes(const T& value) {
  if constexpr (IsComplex<T>::value) {
    return value_bytes(value.real()) + value_bytes(value.imag());
  } else {
    constexpr std::size_t bytes = std::is_same_v<T, long double> ? 10 : sizeof(T);
    std::string text(bytes, '\0');
    std::memcpy(text.data(), &value, bytes);
    return text;
  }
}

template <class T>
std::string value_bytes(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += value_bytes(value);
  return text;
}

// The documented association: with P ranks and 2^k <= P, the first P - 2^k pairs of neighbours are
// folded; over the 2^k values stands a complete binary tree. Left operands are the lower ranks.
template <class T>
T associate(std::vector<T> ranks, MPI_Op op) {
  const auto combine = [op](const T& a, const T& b) { return op == MPI_SUM ? a + b : a * b; };
  std::size_t leaves = 1;
  while (leaves * 2 <= ranks.size()) leaves *= 2;
  const std::size_t folded = ranks.size() - leaves;
  std::vector<T> level;
  for (std::size_t pair = 0; pair < folded; ++pair) {
    level.push_back(combine(ranks[2 * pair], ranks[2 * pair + 1]));
  }
  level.insert(level.end(), ranks.begin() + static_cast<std::ptrdiff_t>(2 * folded), ranks.end());
  while (level.size() > 1) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) {
      level[i] = combine(level[2 * i], level[2 * i + 1]);
    }
    level.resize(level.size() / 2);
  }
  return level[0];
}

}  // namespace mpitest
