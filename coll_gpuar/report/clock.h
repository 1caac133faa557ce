// Time, and how the clocks of two processes compare.
//
// A stamp tells a peer when the last of the ranks entered a call, and which one that was, in 64
// bits: the time is counted in steps of 16 ns and wraps after nearly five hours, so whoever reads
// it takes the time that is nearest to its own.
#pragma once

#include <cstdint>
#include <ctime>
#include <limits>

#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

// Nanoseconds of a clock that all processes of a host share.
inline std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

namespace stamps {

constexpr unsigned rank_bits = 24;
constexpr unsigned step_bits = 4;  // 16 ns

// Never 0, which stands for no stamp.
constexpr std::uint64_t make(std::int64_t time, Rank rank) {
  const auto steps = static_cast<std::uint64_t>(time) >> step_bits;
  const auto who = static_cast<std::uint64_t>(rank) & ((1U << rank_bits) - 1);
  const std::uint64_t stamp = steps << rank_bits | who;
  return stamp != 0 ? stamp : std::uint64_t{1} << rank_bits;
}

constexpr Rank rank_of(std::uint64_t stamp) {
  return static_cast<Rank>(stamp & ((1U << rank_bits) - 1));
}

// The time of the stamp, by the clock of its sender, which reads `senders_now` or so.
constexpr std::int64_t time_of(std::uint64_t stamp, std::int64_t senders_now) {
  const std::uint64_t now = make(senders_now, 0) >> rank_bits << rank_bits;
  const auto behind = static_cast<std::int64_t>((stamp >> rank_bits << rank_bits) - now);
  return senders_now + (behind >> rank_bits) * (1 << step_bits);
}

}  // namespace stamps

// What the clock of another process shows, as far as pings have told. Of all answers the best one
// counts: it came back soonest, and is not so old that the clocks may have drifted apart. Whoever
// has learned something tells the other, which may compute when it is asked.
class PeerClock {
 public:
  static constexpr std::int64_t unknown = std::numeric_limits<std::int64_t>::max();

  // A process of the same host: one clock.
  void share() { shared_ = true; }
  [[nodiscard]] bool is_shared() const { return shared_; }

  // To be added to the time here.
  [[nodiscard]] std::int64_t offset() const { return offset_; }
  // How far the offset may be off, in ns; or unknown.
  [[nodiscard]] std::int64_t uncertainty(std::int64_t now) const {
    if (shared_) return 0;
    return uncertainty_ == unknown ? unknown : uncertainty_ + (now - taken_) / drift;
  }

  // Whether it should be asked again, and if so, as what: pong() is given the same tag.
  [[nodiscard]] bool is_due(std::int64_t now) const;
  std::uint16_t ping(std::int64_t now);
  // Returns whether it has told something better than what was known.
  bool pong(std::uint16_t tag, std::int64_t theirs, std::int64_t now);
  // The other process has found this, as seen from here.
  bool told(std::int64_t offset, std::int64_t uncertainty, std::int64_t now);

 private:
  static constexpr std::int64_t drift = 10'000;  // two clocks drift by less than 1 in this many

  bool shared_ = false;
  bool asking_ = false;
  std::uint16_t tag_ = 0;
  unsigned answers_ = 0;
  std::int64_t asked_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t uncertainty_ = unknown;
  std::int64_t taken_ = 0;
};

}  // namespace gpuar
