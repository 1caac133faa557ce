// How often a call took how long, in bounded memory: eight buckets for each power of two.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace gpuar {

class Histogram {
 public:
  static constexpr std::size_t per_octave = 8;
  static constexpr std::size_t buckets = 45 * per_octave;  // up to 39 hours

  void add(std::int64_t ns, std::uint64_t times = 1) { counts_[bucket_of(ns)] += times; }
  void add_bucket(std::size_t bucket, std::uint64_t times) {
    counts_[std::min(bucket, buckets - 1)] += times;
  }

  // The time that this share of the calls did not exceed; 0 without calls. At most 7 % off.
  [[nodiscard]] std::int64_t quantile(double share) const {
    std::uint64_t all = 0;
    for (const std::uint64_t count : counts_) all += count;
    const double wanted = share * static_cast<double>(all);
    double seen = 0;
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {
      seen += static_cast<double>(counts_[bucket]);
      if (counts_[bucket] != 0 && seen >= wanted) return middle_of(bucket);
    }
    return 0;
  }

  [[nodiscard]] const std::array<std::uint64_t, buckets>& counts() const { return counts_; }

  static constexpr std::size_t bucket_of(std::int64_t ns) {
    const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
    if (value < per_octave) return value;
    const auto octave = static_cast<std::size_t>(std::bit_width(value)) - fraction_bits - 1;
    const std::size_t bucket = octave * per_octave + (value >> octave);
    return std::min(bucket, buckets - 1);
  }
  static constexpr std::int64_t middle_of(std::size_t bucket) {
    if (bucket < 2 * per_octave) return static_cast<std::int64_t>(bucket);
    const std::size_t octave = bucket / per_octave - 1;
    const std::uint64_t first = (bucket - octave * per_octave) << octave;
    return static_cast<std::int64_t>(first + (std::uint64_t{1} << octave) / 2);
  }

 private:
  static constexpr std::size_t fraction_bits = 3;
  std::array<std::uint64_t, buckets> counts_{};
};

}  // namespace gpuar
