// Averages, and the 16-bit floating types over all their values, against exact arithmetic.
#include "cuda_reduce/half.h"
#include "cuda_reduce/reduce.h"
#include "test/catch.h"
#include "test/cuda_reduce/isa.h"
#include "test/cuda_reduce/reference.h"

namespace {

constexpr int all_values = 1 << 16;

template <class T>
T make(int bits) {
  return T{static_cast<std::uint16_t>(bits)};
}

// Any NaN equals any NaN.
template <class T>
bool same(T a, T b) {
  if constexpr (reference::is_narrow<T>) {
    return a.bits == b.bits || (std::isnan(a.value()) && std::isnan(b.value()));
  } else if constexpr (reference::is_complex<T>) {
    return same(a.real(), b.real()) && same(a.imag(), b.imag());
  } else {
    return reference::same_bits(&a, &b, 1) || (a != a && b != b);
  }
}

// Every value with `partners` of either side, and every value divided.
template <class T>
void check_all_values(gpuar_type type) {
  std::vector<T> all(all_values), partner(all_values), out(all_values);
  for (int i = 0; i < all_values; ++i) all[i] = make<T>(i);
  const auto count_wrong = [&](auto expected) {
    int wrong = 0;
    for (int i = 0; i < all_values; ++i) wrong += same(out[i], expected(i)) ? 0 : 1;
    return wrong;
  };
  for (const gpuar_op op : {GPUAR_SUM, GPUAR_PROD, GPUAR_MIN, GPUAR_MAX}) {
    INFO(gpuar::name_of(op) << " on " << gpuar::name_of(type));
    for (const int stride : {0, 1, 257, 30011}) {  // 0: with itself
      for (int i = 0; i < all_values; ++i)
        partner[i] = stride == 0 ? all[i] : make<T>(0x3c00 + i * stride);
      gpuar::host_reduce(op, type)(out.data(), all.data(), partner.data(), all.size());
      CHECK(count_wrong([&](int i) { return reference::reduce(op, all[i], partner[i]); }) == 0);
    }
  }
  for (const int ranks : {1, 2, 3, 5, 7, 10, 64, 1000, 4095}) {
    INFO(gpuar::name_of(type) << " by " << ranks);
    gpuar::host_divide(type)(out.data(), all.data(), all.size(), ranks);
    CHECK(count_wrong([&](int i) { return reference::divide(all[i], ranks); }) == 0);
  }
}

// Widening is exact; rounding is right at every tie and beside it.
template <class Half, class T>
void check_conversions() {
  int wrong = 0;
  const auto check_round = [&](float number) {
    const T rounded = make<T>(Half::round(number).bits);
    if (!same(rounded, T::nearest(number))) ++wrong;
  };
  for (int bits = 0; bits < all_values; ++bits) {
    const auto here = static_cast<float>(make<T>(bits).value());
    const Half half{static_cast<std::uint16_t>(bits)};
    if (!same(half.widen(), here)) ++wrong;
    if (!same(make<T>(Half::round(half.widen()).bits), make<T>(bits))) ++wrong;
    // The next one away from zero: infinity after the largest, at the place of the next number.
    const double next = make<T>(bits).value() * 2 - make<T>(bits - 1).value();
    const auto tie = static_cast<float>((here + next) / 2);
    check_round(tie);
    check_round(std::nextafter(tie, 0.0F));
    check_round(std::nextafter(tie, std::copysign(HUGE_VALF, tie)));
  }
  for (const float extreme : {3e38F, 1e-45F, 65519.996F, 65520.0F, HUGE_VALF}) {
    check_round(extreme);
    check_round(-extreme);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("16-bit types: conversions are exact and round to nearest even", "[half]") {
  check_conversions<gpuar::Float16, reference::Half>();
  check_conversions<gpuar::BFloat16, reference::Brain>();
}

TEST_CASE("16-bit types: all values are added, ordered and divided", "[half]") {
  for_each_isa([] {
    check_all_values<reference::Half>(GPUAR_FLOAT16);
    check_all_values<reference::Brain>(GPUAR_BFLOAT16);
  });
}

TEST_CASE("16-bit types: NaN stays NaN, with equal bits from every instruction set", "[half]") {
  const std::vector<std::uint16_t> nans = {0x7c01, 0xfc01, 0x7e00, 0x7fff, 0xffff,
                                           0x7d55, 0xfdaa, 0x7e01, 0xfe00, 0x7c80};
  const std::vector<std::uint16_t> ones(nans.size(), 0x3c00);
  std::vector<std::vector<std::uint16_t>> results;
  for_each_isa([&] {
    auto& out = results.emplace_back(nans.size());
    gpuar::host_divide(GPUAR_FLOAT16)(out.data(), nans.data(), nans.size(), 3);
    for (const auto bits : out) CHECK((bits & 0x7fff) > 0x7c00);
    std::vector<std::uint16_t> sums(nans.size());
    gpuar::host_reduce(GPUAR_SUM, GPUAR_FLOAT16)(sums.data(), nans.data(), ones.data(), 10);
    CHECK(sums == out);  // quieted, payload kept
  });
  for (const auto& result : results) CHECK(result == results.front());
}

TEST_CASE("averages exist for floating and complex types, and divide rightly", "[average]") {
  for_each_isa([] {
    reference::for_each_type([]<class T>(gpuar_type type) {
      INFO(gpuar::name_of(type));
      constexpr bool has_average =
          reference::is_narrow<T> || reference::is_complex<T> || std::is_floating_point_v<T>;
      REQUIRE((gpuar::host_divide(type) != nullptr) == has_average);
      if constexpr (has_average) {
        const auto values = reference::values<T>();
        for (std::size_t count = 0; count <= values.size(); ++count) {
          const int ranks = 2 + static_cast<int>(count % 9);
          std::vector<T> out(values);
          gpuar::host_divide(type)(out.data(), out.data(), count, ranks);  // in place
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < out.size(); ++i) {
            const T expected = i < count ? reference::divide(values[i], ranks) : values[i];
            wrong += same(out[i], expected) ? 0 : 1;
          }
          CHECK(wrong == 0);
        }
      }
    });
    const __float128 sums[] = {1, -7};
    __float128 out[2];
    gpuar::host_divide(GPUAR_FLOAT128)(out, sums, 2, 3);
    CHECK((out[0] == sums[0] / 3 && out[1] == sums[1] / 3));
    gpuar::host_divide(GPUAR_COMPLEX_FLOAT128)(out, sums, 1, 3);
    CHECK((out[0] == sums[0] / 3 && out[1] == sums[1] / 3));
  });
}
