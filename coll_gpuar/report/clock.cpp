#include "coll_gpuar/report/clock.h"

namespace gpuar {

bool PeerClock::is_due(std::int64_t now) const {
  constexpr std::int64_t ms = 1'000'000;
  constexpr std::int64_t lost = 1000 * ms;  // the answer will not come any more
  constexpr unsigned eager_answers = 16;
  if (shared_) return false;
  if (asking_) return now - asked_ >= lost;
  if (answers_ == 0) return true;
  return now - asked_ >= (answers_ < eager_answers ? ms : 100 * ms);
}

std::uint16_t PeerClock::ping(std::int64_t now) {
  asking_ = true;
  asked_ = now;
  return ++tag_;
}

bool PeerClock::pong(std::uint16_t tag, std::int64_t theirs, std::int64_t now) {
  if (!asking_ || tag != tag_) return false;
  asking_ = false;
  ++answers_;
  const std::int64_t half = (now - asked_) / 2;
  return told(theirs - (asked_ + half), half, now);
}

bool PeerClock::told(std::int64_t offset, std::int64_t uncertainty, std::int64_t now) {
  if (shared_ || uncertainty >= this->uncertainty(now)) return false;
  offset_ = offset;
  uncertainty_ = uncertainty;
  taken_ = now;
  return true;
}

}  // namespace gpuar
