// Conversions of fp16 by the processor, eight elements at once. They give the bits that Float16's
// own conversions give, NaN included. For host_kernels.cpp alone.
#pragma once

#include <immintrin.h>

#include <cstddef>

namespace gpuar::GPUAR_HOST_ISA {
namespace {

constexpr std::size_t eight_halves = 16;  // bytes

[[gnu::always_inline]] inline __m256 load_halves(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

[[gnu::always_inline]] inline void store_halves(std::byte* at, __m256 values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at),
                   _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace
}  // namespace gpuar::GPUAR_HOST_ISA
